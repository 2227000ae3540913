"""The sources of a release as syntax trees: modules, classes, functions and names, found when they are asked for.

Nothing is imported or executed. ``root`` is the folder that holds the package ``megatron``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PACKAGE = "megatron"
_DATACLASS = "dataclass"


class External(NamedTuple):
    """Something of another package, by its dotted path."""

    path: str


class Function(NamedTuple):
    """A function or method, and the module it stands in."""

    module: Module
    node: ast.FunctionDef
    owner: Class | None = None

    @property
    def name(self) -> str:
        """The name with that of its class."""
        return f"{self.owner.name}.{self.node.name}" if self.owner is not None else self.node.name

    @property
    def path(self) -> str:
        """The dotted path."""
        return f"{self.module.name}.{self.name}"


class Expression(NamedTuple):
    """A module-level value, and the module it stands in."""

    module: Module
    node: ast.expr


class Class:
    """A class definition."""

    def __init__(self, module: Module, node: ast.ClassDef) -> None:
        self.module, self.node, self.name = module, node, node.name

    def __repr__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """The dotted path."""
        return f"{self.module.name}.{self.name}"

    @cached_property
    def bases(self) -> list[Class | External]:
        """The base classes, as far as they are classes."""
        names = [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in self.node.bases]
        found = [self.module.before(self.name) if name == self.name else self.module.at(name) for name in names]
        return [base for base in found if isinstance(base, (Class, External))]

    @cached_property
    def order(self) -> list[Class]:
        """The classes in which attributes are looked up (C3), without those of other packages."""
        lists = [list(base.order) for base in self.bases if isinstance(base, Class)]
        lists.append([base for base in self.bases if isinstance(base, Class)])
        merged: list[Class] = [self]
        while any(lists):
            lists = [entries for entries in lists if entries]
            for entries in lists:
                if not any(entries[0] in other[1:] for other in lists):
                    head = entries[0]
                    break
            else:
                break
            merged.append(head)
            lists = [entries[1:] if entries[0] is head else entries for entries in lists]
        return merged

    @cached_property
    def base_names(self) -> frozenset[str]:
        """Simple names of all base classes, those of other packages included."""
        names = {ast.unparse(base).rpartition(".")[2] for cls in self.order for base in cls.node.bases}
        return frozenset(names | {cls.name for cls in self.order})

    @property
    def is_enum(self) -> bool:
        """Whether it is an enumeration."""
        return any("Enum" in name for name in self.base_names - {self.name})

    @property
    def is_text(self) -> bool:
        """Whether its values are texts."""
        return "str" in self.base_names or "StrEnum" in self.base_names

    @cached_property
    def members(self) -> dict[str, ast.expr]:
        """What the class body assigns, without annotated fields."""
        found: dict[str, ast.expr] = {}
        for node in self.node.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node.value
        return found

    @cached_property
    def own_methods(self) -> dict[str, ast.FunctionDef]:
        """Functions of the class body."""
        return {node.name: node for node in self.node.body if isinstance(node, ast.FunctionDef)}

    def method(self, name: str, after: Class | None = None) -> Function | None:
        """The method that an object of this class has; ``after`` looks behind that class, as ``super()`` does."""
        order = self.order
        if after is not None:
            order = order[order.index(after) + 1 :] if after in order else []
        for cls in order:
            if name in cls.own_methods:
                return Function(cls.module, cls.own_methods[name], cls)
        return None

    @cached_property
    def fields(self) -> dict[str, tuple[Class, ast.AnnAssign]]:
        """The fields of a dataclass in their order."""
        found: dict[str, tuple[Class, ast.AnnAssign]] = {}
        for cls in reversed(self.order):
            if not any(_DATACLASS in ast.unparse(decorator) for decorator in cls.node.decorator_list):
                continue
            for node in cls.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    if "ClassVar" not in ast.unparse(node.annotation):
                        found[node.target.id] = (cls, node)
        return found


class Module:
    """The names of one source file."""

    def __init__(self, sources: Sources, name: str, path: Path) -> None:
        self.sources, self.name, self.path = sources, name, path
        self.is_package = path.name == "__init__.py"
        self.names: dict[str, ast.AST | tuple[str, str]] = {}
        self.updates: dict[str, list[ast.expr]] = {}
        self._classes: dict[str, Class] = {}
        self._covered: dict[str, tuple[str, str]] = {}
        self._note(ast.parse(path.read_text(encoding="utf-8")).body)

    def _note(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                earlier = self.names.get(node.name)
                if isinstance(earlier, tuple):
                    self._covered[node.name] = earlier
                self.names[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.names[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                self.names[node.target.id] = node.value
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, found in imported(self, node):
                    self.names[name] = found
            elif isinstance(node, (ast.Try, ast.If)):
                self._note(node.body)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
                if node.value.func.attr == "update" and node.value.args:
                    self.updates.setdefault(ast.unparse(node.value.func.value), []).append(node.value.args[0])

    def at(self, dotted: str) -> Function | Class | Module | External | Expression | None:
        """What a dotted name stands for in this module."""
        head, _, rest = dotted.partition(".")
        found = self.look(head)
        for part in rest.split(".") if rest else ():
            if isinstance(found, Module):
                found = found.look(part)
            elif isinstance(found, External):
                found = External(f"{found.path}.{part}")
            else:
                return None
        return found

    def before(self, name: str) -> Function | Class | Module | External | Expression | None:
        """What an imported name stood for before the file gave it to something of its own."""
        covered = self._covered.get(name)
        return self.sources.imported(*covered) if covered is not None else None

    def look(self, name: str) -> Function | Class | Module | External | Expression | None:
        """What a name stands for; None for one that the module does not define."""
        found = self.names.get(name)
        if found is None:
            return self.sources.module(f"{self.name}.{name}") if self.is_package else None
        if isinstance(found, tuple):
            return self.sources.imported(*found)
        if isinstance(found, ast.FunctionDef):
            return Function(self, found)
        if isinstance(found, ast.ClassDef):
            if name not in self._classes:
                self._classes[name] = Class(self, found)
            return self._classes[name]
        return Expression(self, found) if isinstance(found, ast.expr) else None

    def classes(self) -> Iterator[Class]:
        """The classes that the file defines."""
        for name, node in self.names.items():
            if isinstance(node, ast.ClassDef):
                found = self.look(name)
                if isinstance(found, Class):
                    yield found


def imported(module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that an import binds, each with the module and the name in it ("" for a module itself)."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.split(".")[0], (alias.name if alias.asname else alias.name.split(".")[0], "")
        return
    base = node.module or ""
    if node.level:
        parts = module.name.split(".")
        parts = parts[: len(parts) - node.level + module.is_package]
        base = ".".join([*parts, *([base] if base else [])])
    for alias in node.names:
        yield alias.asname or alias.name, (base, alias.name)


class Sources:
    """The packages below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None where there is no such file."""
        if name not in self._modules:
            self._modules[name] = None
            path = self.root.joinpath(*name.split("."))
            for candidate in (path.with_suffix(".py") if path.name else path, path / "__init__.py"):
                if candidate.is_file():
                    self._modules[name] = Module(self, name, candidate)
                    break
        return self._modules[name]

    def imported(self, module: str, name: str) -> Function | Class | Module | External | Expression | None:
        """What an import binds."""
        if module.split(".")[0] != PACKAGE:
            return External(f"{module}.{name}" if name else module)
        if not name:
            return self.module(module) or External(module)
        holder = self.module(module)
        found = holder.look(name) if holder is not None else None
        return found or self.module(f"{module}.{name}") or External(f"{module}.{name}")

    def find(self, path: str) -> Function | Class | Module | External | Expression | None:
        """What stands at a dotted path."""
        module, _, name = path.rpartition(".")
        return self.imported(module, name)

    def all_classes(self, below: str) -> Iterator[Class]:
        """Every class of a package."""
        folder = self.root.joinpath(*below.split("."))
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(self.root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            try:
                module = self.module(name)
            except SyntaxError:
                continue
            if module is not None:
                yield from module.classes()
