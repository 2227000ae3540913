"""Values of a followed recipe as plain data, in the form of the recipe facts."""

from __future__ import annotations

import ast
from typing import Any

from mbpack.config.python.values import Function, Known, Record, Several, Symbol, Unknown, Value
from mbpack.learn.lists.fields import Class, Entry
from mbpack.learn.lists.tree import Defined, Foreign
from mbpack.learn.lists.types import is_enum
from mbpack.learn.lists.values import UNREAD, described, foreign, text_value
from mbpack.learn.recipes.machine import Machine

_MISSING = object()


class NotRead(Exception):
    """A value that is not known, or only in part."""


def same(a: Any, b: Any) -> bool:
    """Equality of encoded values that tells False from 0; whole numbers equal their float."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


class Encoder:
    """Encodes what one machine holds."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def value(self, value: Value, depth: int = 0) -> Any:
        """Plain data for a value.

        Raises:
            NotRead: it is not known.
        """
        if depth > 12:
            raise NotRead
        if isinstance(value, Known):
            if isinstance(value.value, str):
                return text_value(value.value)
            if isinstance(value.value, bytes):
                raise NotRead
            return value.value
        if isinstance(value, Several):
            return [self.value(item, depth + 1) for item in value.items]
        if isinstance(value, Function):
            return described(f"<callable {value.name}>")
        if isinstance(value, Symbol):
            return self._symbol(value)
        record = self.machine.record(value)
        if record is None or isinstance(value, Unknown):
            raise NotRead
        return self._record(record, depth)

    def _symbol(self, value: Symbol) -> Any:
        owner, _, name = value.path.rpartition(".")
        found = self.machine.class_at(owner)
        if found is not None:
            if not is_enum(found.found):
                return described(f"<callable {name}>")
            return name if found.node.name.startswith("CudaGraph") else described(f"<enum {found.node.name}.{name}>")
        if value.path.startswith("megatron."):
            meant = self.machine.tree.look_up(value.path)
            if not isinstance(meant, Defined) or not isinstance(meant.node, (ast.ClassDef, ast.FunctionDef)):
                raise NotRead
            return described(f"<callable {name}>")
        known = foreign(Foreign(value.path))
        if known is UNREAD:
            raise NotRead
        return known

    def _record(self, record: Record, depth: int) -> Any:
        cells = [cell.value for cell in record.fields.values()]
        if record.kind == "path":
            held = self.value(cells[0])
            return described(f"<path {held}>") if isinstance(held, str) else held
        if record.kind == "partial":
            return described(f"<callable {getattr(cells[0], 'name', '')}>")
        if record.opaque:
            raise NotRead
        if record.kind == "list":
            return [self.value(cell, depth + 1) for cell in cells]
        if record.kind == "dict":
            return {str(key): self.value(cell.value, depth + 1) for key, cell in record.fields.items()}
        cls = self.machine.class_at(record.cls)
        if cls is None:
            raise NotRead
        if not cls.fields and not cls.is_dataclass:
            return described(f"<object {cls.node.name}>")
        found: dict[str, Any] = {"_target_": cls.path}
        for name, held in self.fields(record, cls):
            encoded = self.value(held, depth + 1)
            if not same(encoded, default(cls.fields[name])):
                found[name] = encoded
        return found

    def fields(self, record: Record, cls: Class) -> list[tuple[str, Value]]:
        """The fields of an object that may differ from what its class gives them."""
        found = []
        for name, entry in cls.fields.items():
            if name in record.fields:
                found.append((name, record.fields[name].value))
            elif isinstance(default(entry), dict) and str(default(entry).get("~", "")).startswith("<object "):
                found.append((name, self.machine.default_of(cls, name)))
        return found

    def is_config(self, value: Value) -> Class | None:
        """The class of a configuration object."""
        cls = self.machine.class_of(value)
        return cls if cls is not None and (cls.fields or cls.is_dataclass) else None


def default(entry: Entry) -> Any:
    """The default of a field, something that equals nothing where it has none."""
    return entry[1] if len(entry) > 1 else _MISSING
