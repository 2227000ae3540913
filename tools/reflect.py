"""Turn configuration classes and objects of an installed Megatron-Bridge into plain data.

Nothing here knows a class by name: types, defaults and values are read off the dataclasses themselves.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import enum
import functools
import math
import pathlib
import re
import sys
import types
import typing
from typing import Any

Entry = list[Any]  # [type, default, 0 when the constructor does not take it]; [type] alone is a required field
NOT_GIVEN = object()


def is_config(value: Any) -> bool:
    """Whether a value is an instance of one of Megatron's dataclasses."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith("megatron.")


def path_of(cls: type) -> str:
    """The import path of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def encode(value: Any, objects: bool = False) -> Any:
    """Plain data for a value. What plain data cannot express becomes {"~": description}.

    With `objects`, an instance of a configuration class becomes {"_target_": import path, differing fields ...}.
    """
    if value is None or isinstance(value, bool) or type(value) is int:
        return value
    if isinstance(value, str) and type(value) is str:
        return {"~": "<absolute path>"} if value.startswith("/") and not value.startswith("/checkpoints") else value
    if type(value) is float:
        return value if not math.isnan(value) else {"~": "nan"}
    if isinstance(value, enum.Enum):
        if type(value).__name__.startswith("CudaGraph"):
            return value.name  # names are what a file holds there, and they are converted
        return {"~": f"<enum {type(value).__name__}.{value.name}>"}
    if isinstance(value, (list, tuple)):
        return [encode(v, objects) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((encode(v, objects) for v in value), key=repr)
    if isinstance(value, collections.abc.Mapping):
        return {str(k): encode(v, objects) for k, v in value.items()}
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    if isinstance(value, pathlib.PurePath):
        return {"~": f"<path {value}>" if not value.is_absolute() else "<absolute path>"}
    if objects and is_config(value):
        return {"_target_": path_of(type(value)), **differences(value, objects)}
    if callable(value) and hasattr(value, "__name__"):
        return {"~": f"<callable {value.__name__}>"}
    if isinstance(value, functools.partial):
        return {"~": f"<callable {getattr(value.func, '__name__', '?')}>"}
    return {"~": f"<object {type(value).__name__}>"}


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The encoded default of a field, NOT_GIVEN when it is required."""
    if field.default is not dataclasses.MISSING:
        return encode(field.default)
    if field.default_factory is not dataclasses.MISSING:
        try:
            return encode(field.default_factory())
        except Exception as error:  # a factory that needs the network or a GPU
            return {"~": f"<factory failed: {type(error).__name__}>"}
    return NOT_GIVEN


def differences(value: Any, objects: bool = True) -> dict[str, Any]:
    """The fields of a configuration object that differ from the defaults of its class, encoded."""
    found = {}
    for field in dataclasses.fields(value):
        held = encode(getattr(value, field.name, None), objects)
        if not same(held, default_of(field)):
            found[field.name] = held
    return found


def same(a: Any, b: Any) -> bool:
    """Equality of encoded values that tells False from 0; whole numbers equal their float."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def fields_of(cls: type) -> dict[str, Entry]:
    """Every field of a configuration class."""
    found: dict[str, Entry] = {}
    for field in dataclasses.fields(cls):
        text, default = render(annotation(cls, field)), default_of(field)
        if default is NOT_GIVEN:
            found[field.name] = [text] if field.init else [text, {"~": None}, 0]
        else:
            found[field.name] = [text, default] if field.init else [text, default, 0]
    return found


def attributes_of(cls: type, instance: Any = None) -> set[str]:
    """Public names of a class (and of an instance of it) that are not fields but that `hasattr` finds."""
    names = {n for n in dir(cls) if not n.startswith("__")} | set(vars(instance) if instance is not None else ())
    return names - {f.name for f in dataclasses.fields(cls)}


def annotation(cls: type, field: dataclasses.Field[Any]) -> Any:
    """The annotation of a field as an object where it can be evaluated, else as the text that was written."""
    if not isinstance(field.type, str):
        return field.type
    for owner in cls.__mro__:
        if field.name in vars(owner).get("__annotations__", {}):
            names = {**vars(typing), **vars(sys.modules[owner.__module__])}
            for text in (field.type, re.sub(r"'(\w+)'", r"\1", field.type)):  # also "quoted" names inside an annotation
                with contextlib.suppress(Exception):
                    return eval(text, names)
    return field.type


def render(annotated: Any) -> str:
    """A short text for a type: `int|null`, `list[str]`, `literal['a','b']`, `enum:AttnBackend`, `callable`."""
    if annotated is None or annotated is type(None):
        return "null"
    if isinstance(annotated, (str, typing.ForwardRef)):
        text = annotated if isinstance(annotated, str) else annotated.__forward_arg__
        return text.replace(" ", "").replace('"', "'").replace("None", "null")
    origin, args = typing.get_origin(annotated), typing.get_args(annotated)
    if origin in (typing.Union, types.UnionType):
        parts = dict.fromkeys(render(a) for a in args)
        return "|".join(sorted(parts, key=lambda p: p == "null"))
    if origin is typing.Literal:
        return f"literal[{','.join(repr(a) for a in args)}]"
    if origin is typing.Annotated:
        return render(args[0])
    if origin in (typing.ClassVar, typing.Final) and args:
        return render(args[0])
    if origin is type or annotated is type:
        return "type"
    if origin is collections.abc.Callable or annotated in (typing.Callable, collections.abc.Callable):
        return "callable"
    if origin is not None:
        name = getattr(annotated, "_name", None) or origin.__name__
        name = name.lower() if name in ("List", "Dict", "Tuple", "Set") else name
        return f"{name}[{','.join('...' if a is Ellipsis else render(a) for a in args)}]" if args else name
    if isinstance(annotated, type) and issubclass(annotated, enum.Enum):
        return f"enum:{annotated.__name__}"
    if getattr(annotated, "__module__", "") == "torch":
        return f"torch.{annotated.__name__}"
    name = getattr(annotated, "__name__", None) or str(annotated).rsplit(".", 1)[-1]
    return {"List": "list", "Dict": "dict", "Tuple": "tuple", "Set": "set"}.get(name, name)
