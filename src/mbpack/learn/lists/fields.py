"""Fields of configuration classes: what ``dataclasses.fields`` would say, from the sources alone."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import Any

from mbpack.learn.lists.tree import Defined, Foreign, Tree
from mbpack.learn.lists.types import CannotRead, as_written, render
from mbpack.learn.lists.values import UNREAD, described, returned, value

Entry = list[Any]
_SKIPPED = ("ClassVar", "InitVar", "KW_ONLY")


class Class:
    """A class of the tree with its bases in order of resolution."""

    def __init__(self, reader: Reader, found: Defined) -> None:
        assert isinstance(found.node, ast.ClassDef)
        self.reader, self.found, self.node = reader, found, found.node

    @property
    def path(self) -> str:
        """The import path."""
        return self.found.dotted

    @cached_property
    def is_dataclass(self) -> bool:
        """Whether the class itself is decorated as one."""
        for decorator in self.node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            meant = self.found.module.meaning(call)
            name = meant.name if meant is not None else getattr(call, "id", getattr(call, "attr", ""))
            if name == "dataclass":
                return True
        return False

    @cached_property
    def bases(self) -> list[Class]:
        """The bases that lie in the tree."""
        found = []
        for base in self.node.bases:
            target = base.value if isinstance(base, ast.Subscript) else base
            meant = self.found.module.meaning(target)
            if isinstance(meant, Defined) and isinstance(meant.node, ast.ClassDef) and meant.node is not self.node:
                found.append(self.reader.class_of(meant))
        return found

    @cached_property
    def foreign(self) -> list[str]:
        """Dotted names of bases, and of bases of bases, that lie outside the tree."""
        own = []
        for base in self.node.bases:
            meant = self.found.module.meaning(base.value if isinstance(base, ast.Subscript) else base)
            if isinstance(meant, Foreign):
                own.append(meant.dotted)
        return [*own, *(name for base in self.bases for name in base.foreign)]

    @cached_property
    def mro(self) -> list[Class]:
        """The class and its bases as Python orders them."""
        lists = [[*base.mro] for base in self.bases] + [[*self.bases]]
        order: list[Class] = [self]
        while any(lists):
            head = next((chain[0] for chain in lists if chain and not any(chain[0] in other[1:] for other in lists)), None)
            if head is None:
                break
            order.append(head)
            lists = [[one for one in chain if one is not head] for chain in lists]
        return order

    @cached_property
    def fields(self) -> dict[str, Entry]:
        """Name -> [type, default, 0 when the constructor does not take it]."""
        if not self.is_dataclass:
            base = next((base for base in self.mro[1:] if base.is_dataclass or base.fields), None)
            return dict(base.fields) if base is not None else {}
        found: dict[str, Entry] = {}
        for base in reversed(self.mro[1:]):
            if base.is_dataclass:
                found.update(base.fields)
        assigned = self._assigned()
        for node in self.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not self._skipped(node.annotation):
                default = node.value if node.value is not None else assigned.get(node.target.id)
                found[node.target.id] = (
                    self._entry(node.target.id, node.annotation, default) if default is not None else self._bare(node)
                )
        return found

    def _bare(self, node: ast.AnnAssign) -> Entry:
        """A field without a default of its own: the attribute of a base is one."""
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        text = self._type(name, node.annotation)
        for base in self.mro[1:]:
            entry = base.attributes.get(name)
            if entry is not None:
                return [text, *entry[1:2]]
        return [text]

    @cached_property
    def attributes(self) -> dict[str, Entry]:
        """Defaults that the class's own body leaves as attributes: all but those that a factory makes."""
        found: dict[str, Entry] = {}
        for node in self.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                made = isinstance(node.value, ast.Call) and any(k.arg == "default_factory" for k in node.value.keywords)
                entry = self._entry(node.target.id, node.annotation, node.value)
                if not made and len(entry) > 1 and entry[1] != {"~": None}:
                    found[node.target.id] = entry
        return found

    def _assigned(self) -> dict[str, ast.expr]:
        return {
            target.id: node.value
            for node in self.node.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def _skipped(self, annotation: ast.expr) -> bool:
        head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        if isinstance(head, ast.Constant) and isinstance(head.value, str):
            return head.value.startswith(_SKIPPED)
        return getattr(head, "id", getattr(head, "attr", "")) in _SKIPPED

    def _entry(self, name: str, annotation: ast.expr, default: ast.expr | None) -> Entry:
        module = self.found.module
        text = self._type(name, annotation)
        if default is None:
            return [text]
        if isinstance(default, ast.Call):
            meant = module.meaning(default.func)
            if meant is not None and meant.name == "field":
                return self._with_field(text, default)
        return [text, self._read(value(module, default))]

    def _type(self, name: str, annotation: ast.expr) -> str:
        """The text of an annotation; where it would not evaluate, that of a base that has the field too, else as it is written."""
        for own in self.mro:
            given = annotation if own is self else own.annotations.get(name)
            if given is not None:
                try:
                    return render(own.found.module, given, own.found.module.defers_annotations)
                except CannotRead:
                    continue
        return as_written(annotation)

    @cached_property
    def annotations(self) -> dict[str, ast.expr]:
        """The annotations of the class's own body."""
        return {
            node.target.id: node.annotation
            for node in self.node.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }

    def _with_field(self, text: str, call: ast.Call) -> Entry:
        module = self.found.module
        options = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        init = options.get("init")
        closed = isinstance(init, ast.Constant) and init.value is False
        if "default" in options:
            entry = [text, self._read(value(module, options["default"]))]
        elif "default_factory" in options:
            entry = [text, self._read(self._made(options["default_factory"]))]
        else:
            return [text, {"~": None}, 0] if closed else [text]
        return [*entry, 0] if closed else entry

    def _made(self, factory: ast.expr) -> Any:
        """What a default factory gives."""
        module = self.found.module
        if isinstance(factory, ast.Lambda):
            return value(module, factory.body)
        if isinstance(factory, ast.Name) and factory.id in ("list", "dict", "set", "tuple") and factory.id not in module.names:
            return {} if factory.id == "dict" else []
        meant = module.meaning(factory)
        if isinstance(meant, Foreign):
            return described(f"<object {meant.name}>") if meant.name[:1].isupper() else UNREAD
        if isinstance(meant, Defined):
            if isinstance(meant.node, ast.ClassDef):
                return described(f"<object {meant.name}>")
            return returned(meant)
        return UNREAD

    def _read(self, found: Any) -> Any:
        return described("<unread>") if found is UNREAD else found


class Reader:
    """Classes of a tree, each read once."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._classes: dict[str, Class] = {}
        #: What others worked out once for this tree.
        self.memo: dict[Any, Any] = {}

    def class_of(self, found: Defined) -> Class:
        """The class behind a definition."""
        known = self._classes.get(found.dotted)
        if known is None:
            known = self._classes[found.dotted] = Class(self, found)
        return known

    def at(self, dotted: str) -> Class | None:
        """The class at an import path; None where there is none."""
        meant = self.tree.look_up(dotted)
        return self.class_of(meant) if isinstance(meant, Defined) and isinstance(meant.node, ast.ClassDef) else None
