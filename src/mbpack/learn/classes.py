"""Which classes an annotation mentions, and what derives from a class."""

from __future__ import annotations

import ast

from mbpack.learn.sources import Class, Module, Sources


class Classes:
    """Which classes an annotation mentions, and what derives from a class."""

    def __init__(self, sources: Sources, packages: tuple[str, ...]) -> None:
        self.sources = sources
        self.all: list[Class] = [cls for package in packages for cls in sources.all_classes(package)]
        self._below: dict[str, list[Class]] = {}

    def below(self, cls: Class) -> list[Class]:
        """A class and all that derive from it."""
        if cls.path not in self._below:
            self._below[cls.path] = [other for other in self.all if cls in other.order] or [cls]
        return self._below[cls.path]

    def annotated(self, module: Module, annotation: ast.expr) -> tuple[Class | None, bool]:
        """The one configuration class of an annotation, and whether others may stand there."""
        found: list[Class] = []
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return None, True
        for node in ast.walk(annotation):
            if isinstance(node, (ast.Name, ast.Attribute)):
                held = module.at(ast.unparse(node))
                if isinstance(held, Class) and not held.is_enum and held.fields and held not in found:
                    found.append(held)
        if len(found) != 1:
            return None, True
        return found[0], len(self.below(found[0])) > 1
