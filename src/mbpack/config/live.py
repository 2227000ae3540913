"""A configuration in memory as a document: a container of Megatron-Bridge, or a mapping.

Nothing of torch or Megatron-Bridge is imported; objects are asked for what they say of themselves, and what upstream writes
into a saved file with an object's class is written here in the same form (`utils/yaml_utils.py`, all releases).
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Mapping
from typing import Any

from mbpack.config.document import MISSING, Document, Interpolation, Item, Span

_NOWHERE = Span(0, 0, 0, 0, 0, 0)
#: Objects inside objects are followed this far.
_DEEPEST = 40


def is_container(value: Any) -> bool:
    """Whether a value is a live ConfigContainer, of any release or fork."""
    return any(cls.__name__ == "ConfigContainer" for cls in type(value).__mro__) and hasattr(value, "to_dict")


def document_of(value: Any) -> Document:
    """The document of a live container or a mapping of plain values.

    Raises:
        TypeError: it is neither.
    """
    if is_container(value):
        held = value.to_dict()
    elif isinstance(value, Mapping):
        held = value
    else:
        raise TypeError(f"a ConfigContainer, a mapping or a path is checked, not {type(value).__name__}")
    return Document(None, "", _item(_plain(held, 0)))


def _item(value: Any) -> Item:
    if isinstance(value, dict):
        return Item({name: _keyed(child) for name, child in value.items()}, _NOWHERE)
    return Item([_item(child) for child in value] if isinstance(value, list) else _scalar(value), _NOWHERE)


def _keyed(value: Any) -> Item:
    item = _item(value)
    item.move(_NOWHERE, _NOWHERE)
    return item


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return MISSING if value == "???" else Interpolation(value) if "${" in value else value
    return value


def _plain(value: Any, depth: int) -> Any:
    """A value as a saved file holds it."""
    if value is None or (isinstance(value, (bool, int, float, str, bytes)) and not isinstance(value, enum.Enum)):
        return value
    if depth > _DEEPEST:
        return repr(value)[:200]
    if isinstance(value, Mapping):
        return {name: _plain(child, depth + 1) for name, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child, depth + 1) for child in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(child, depth + 1) for child in value), key=str)
    return _object(value, depth)


def _object(value: Any, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        return {"_target_": _path(type(value)), "_call_": True, "_args_": [_plain(value.value, depth + 1)], "_name_": value.name}
    if isinstance(value, functools.partial):
        keywords = {name: _plain(child, depth + 1) for name, child in value.keywords.items()}
        return {"_target_": _path(value.func), "_partial_": True, "_args_": _plain(value.args, depth + 1), **keywords}
    if type(value).__name__ == "dtype" and type(value).__module__ == "torch":
        return {"_target_": str(value), "_call_": False}
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return {"_target_": _path(value), "_call_": False}
    if type(value).__module__.partition(".")[0] in ("transformers", "transformers_modules") and hasattr(value, "to_dict"):
        return {"_target_": f"{_path(type(value))}.from_dict", "_call_": True, "config_dict": _plain(value.to_dict(), depth + 1)}
    if hasattr(value, "__qualname__"):
        return {"_target_": _path(value), "_call_": False}
    return {"_target_": _path(type(value)), "_call_": True}


def _path(value: Any) -> str:
    module = getattr(value, "__module__", None) or type(value).__module__
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{module}.{name}"
