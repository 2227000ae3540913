"""The sources of a Megatron-Bridge: its modules, parsed when asked for, and what the names in them stand for.

Nothing is imported or executed. A name stands for a class, a function or a value of a module; imports are followed through
re-exports. What comes from a library outside the tree is *foreign*: only its dotted name is known.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("megatron.bridge", "megatron.core", "megatron.training")
#: Longest chain of imports that is followed.
_MOST_HOPS = 30
#: Bytes of a source file beyond which it is left out.
_MOST_BYTES = 4_000_000


class SourceError(ValueError):
    """A path that holds no Megatron-Bridge; the message is one line."""


class Foreign(NamedTuple):
    """Something that is not defined in the tree, by its dotted name."""

    dotted: str

    @property
    def name(self) -> str:
        """The last part."""
        return self.dotted.rpartition(".")[2]


class Defined(NamedTuple):
    """A class, a function, or the value of an assignment, with the module that defines it."""

    module: Module
    name: str
    node: ast.AST

    @property
    def dotted(self) -> str:
        """Module and name."""
        return f"{self.module.name}.{self.name}"


Meaning = Defined | Foreign


class Module:
    """One module: its definitions and imports."""

    def __init__(self, tree: Tree, name: str, path: Path) -> None:
        self.tree, self.name, self.path = tree, name, path

    @cached_property
    def body(self) -> list[ast.stmt]:
        """Its statements; none where it cannot be parsed."""
        try:
            if self.path.stat().st_size > _MOST_BYTES:
                return []
            return ast.parse(self.path.read_bytes()).body
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            self.tree.unread.append(self.name)
            return []

    @cached_property
    def names(self) -> dict[str, ast.AST | str]:
        """What the module binds at its top: nodes of definitions, dotted names of imports."""
        found: dict[str, ast.AST | str] = {}
        self._bind(self.body, found)
        return found

    @cached_property
    def stars(self) -> list[str]:
        """Modules that it imports everything from."""
        return [
            self._absolute(node.module, node.level)
            for node in self.body
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
        ]

    @cached_property
    def defers_annotations(self) -> bool:
        """Whether annotations are kept as text (``from __future__ import annotations``)."""
        return any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__" and any(a.name == "annotations" for a in node.names)
            for node in self.body
        )

    def _bind(self, body: list[ast.stmt], found: dict[str, ast.AST | str]) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                found[node.target.id] = node.value
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node.module, node.level)
                for alias in node.names:
                    if alias.name != "*":
                        found[alias.asname or alias.name] = f"{base}.{alias.name}"
            elif isinstance(node, ast.Try):
                self._bind(node.body, found)
                for handler in node.handlers:
                    self._bind_missing(handler.body, found)
                self._bind(node.orelse, found)
            elif isinstance(node, ast.If) and not _typing_only(node.test):
                self._bind(node.body, found)
                self._bind_missing(node.orelse, found)
            elif isinstance(node, ast.With):
                self._bind(node.body, found)

    def _bind_missing(self, body: list[ast.stmt], found: dict[str, ast.AST | str]) -> None:
        more: dict[str, ast.AST | str] = {}
        self._bind(body, more)
        for name, meaning in more.items():
            found.setdefault(name, meaning)

    def _absolute(self, module: str | None, level: int) -> str:
        if not level:
            return module or ""
        parts = self.name.split(".")
        if self.path.name != "__init__.py":
            parts = parts[:-1]
        parts = parts[: len(parts) - (level - 1)]
        return ".".join([*parts, *([module] if module else [])])

    def resolve(self, name: str, hops: int = 0) -> Meaning | None:
        """What a plain name in this module stands for; None where nothing binds it."""
        bound = self.names.get(name)
        if isinstance(bound, str):
            return self.tree.look_up(bound, hops + 1)
        if bound is not None:
            if isinstance(bound, ast.Name) and bound.id != name:
                return self.resolve(bound.id, hops + 1) if hops < _MOST_HOPS else None
            return Defined(self, name, bound)
        for star in self.stars:
            other = self.tree.module(star)
            if other is not None and hops < _MOST_HOPS:
                found = other.resolve(name, hops + 1)
                if found is not None:
                    return found
        return None

    def meaning(self, node: ast.AST) -> Meaning | None:
        """What a name or a dotted name stands for."""
        if isinstance(node, ast.Name):
            return self.resolve(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.meaning(node.value)
            if isinstance(owner, Foreign):
                return self.tree.look_up(f"{owner.dotted}.{node.attr}")
            if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
                return Defined(owner.module, f"{owner.name}.{node.attr}", node)
        return None


def _typing_only(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in {test.id if isinstance(test, ast.Name) else getattr(test, "attr", "")}


class Tree:
    """All modules below one or several roots."""

    def __init__(self, roots: list[Path]) -> None:
        self.roots = roots
        self._modules: dict[str, Module | None] = {}
        #: Modules that could not be parsed.
        self.unread: list[str] = []

    def module(self, name: str) -> Module | None:
        """A module of the tree by its dotted name."""
        if name not in self._modules:
            self._modules[name] = self._find(name)
        return self._modules[name]

    def _find(self, name: str) -> Module | None:
        if not name.startswith(PACKAGES):
            return None
        for root in self.roots:
            base = root.joinpath(*name.split("."))
            for path in (base / "__init__.py", base.with_suffix(".py")):
                if path.is_file():
                    return Module(self, name, path)
        return None

    def look_up(self, dotted: str, hops: int = 0) -> Meaning:
        """What a dotted name stands for."""
        module_name, _, name = dotted.rpartition(".")
        if hops > _MOST_HOPS or not module_name:
            return Foreign(dotted)
        module = self.module(module_name)
        if module is None:
            return Foreign(dotted)
        return module.resolve(name, hops + 1) or Foreign(dotted)

    def modules(self, package: str) -> Iterator[Module]:
        """Every module of a package, in the order of their names."""
        for root in self.roots:
            base = root.joinpath(*package.split("."))
            for folder, folders, files in os.walk(base):
                folders.sort()
                for file in sorted(files):
                    if file.endswith(".py"):
                        parts = Path(folder, file).relative_to(root).with_suffix("").parts
                        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                        found = self.module(name)
                        if found is not None:
                            yield found


def open_tree(path: str) -> Tree:
    """The sources at a path: a checkout, a folder of packages, or the package itself.

    Raises:
        SourceError: there is no Megatron-Bridge.
    """
    given = Path(path)
    if not given.is_dir():
        raise SourceError(f"{path}: no such directory" if not given.exists() else f"{path}: not a directory")
    for root in (given / "src", given, given.parent.parent, given.parent):
        if (root / "megatron" / "bridge").is_dir() and (root is not given.parent or given.name == "megatron"):
            break
    else:
        raise SourceError(f"{path}: neither a checkout nor a folder of packages: megatron/bridge is not there")
    roots = [root]
    if not (root / "megatron" / "core").is_dir():
        roots += [found for name in ("Megatron-LM", "megatron-lm") if (found := given / "3rdparty" / name).is_dir()]
    return Tree(roots)
