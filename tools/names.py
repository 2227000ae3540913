"""What can be named as a ``_target_`` in an installed release: the names of every module, and what calling them takes.

The lines are written by `factsfile.write_names` and read by `mbpack.facts.names`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import inspect
import io
import sys
import types
from typing import Any

import classes

PACKAGES = ("megatron.bridge", "megatron.core", "megatron.training")
APART = (
    "megatron.bridge.recipes",
    "megatron.bridge.perf_recipes",
)  # functions that return whole configurations: what else is there is not kept
#: Where functions lie that configurations name: layer specifications, activations, precision, processing of examples.
FUNCTIONS = (
    "megatron.bridge.data",
    "megatron.bridge.models",
    "megatron.bridge.training.mixed_precision",
    "megatron.core.activations",
    "megatron.core.fusions",
    "megatron.core.models",
)
MOST_PARAMETERS = 12  # of a function: beyond, only those it cannot do without are kept


def collect() -> dict[str, Any]:
    """What the modules of the packages and torch itself hold. A name that is kept for no module is in `other`."""
    missing = []
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            missing += classes.import_everything(package)
    modules = {name: module for name, module in sys.modules.items() if _within(name, PACKAGES)}
    other: set[str] = set()
    found = {name: _module(name, module, other) for name, module in sorted(modules.items()) if not _within(name, APART)}
    for name, module in sorted(modules.items()):
        held = _module(name, module, set()) if _within(name, APART) else {}
        if held.get("classes"):  # few recipes have datasets of their own
            found[name] = {**held, "aliases": {}}
    return {
        "modules": found,
        "other": sorted(other),
        "missing": sorted([*missing, *APART]),
        "torch": _torch(),
        "allow": _allowed(),
    }


def _within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def _module(name: str, module: types.ModuleType, other: set[str]) -> dict[str, Any]:
    """Its classes, functions and enumerations with what calling them takes, and the dataclasses it imports."""
    held: dict[str, Any] = {"classes": {}, "functions": {}, "enums": {}, "aliases": {}}
    for attribute, value in sorted(vars(module).items()):
        if attribute.startswith("__") or type(value) is types.ModuleType:
            continue
        home = _home(value)
        if home == f"{name}.{attribute}" and _is_kept(value, name):
            held[_kind(value)][attribute] = _described(value)
        elif home and isinstance(value, type) and (dataclasses.is_dataclass(value) or issubclass(value, enum.Enum)):
            held["aliases"][attribute] = home
        else:
            other.add(attribute)
    return held


def _is_kept(value: Any, module: str) -> bool:
    return isinstance(value, type) or (value.__name__[0] != "_" and _within(module, FUNCTIONS))


def _home(value: Any) -> str:
    """The import path of a class or function of the packages; "" for anything else."""
    try:
        if not isinstance(value, (type, types.FunctionType)):
            return ""
        module, name = value.__module__, value.__qualname__
        hasattr(value, "anything")
    except Exception:  # what stands in for a library that is not installed answers nothing
        return ""
    return f"{module}.{name}" if isinstance(module, str) and _within(module, PACKAGES) else ""


def _kind(value: Any) -> str:
    if not isinstance(value, type):
        return "functions"
    return "enums" if issubclass(value, enum.Enum) else "classes"


def _described(value: Any) -> str:
    """What calling it takes, or the members of an enumeration, in one word (see `mbpack.facts.names`)."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        methods = [f"{name}()" for name in vars(value) if name[0] != "_" and name not in value.__members__]
        return ",".join(
            [f"{name}={m.value}" if isinstance(m.value, int) else name for name, m in value.__members__.items()] + methods
        )
    required, others = _parameters(value)
    word = ",".join(required) + (";" + ",".join(others) if others and not isinstance(value, type) else "")
    return word + "!" if inspect.isabstract(value) else word


def _parameters(value: Any) -> tuple[list[str], list[str]]:
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return [], ["*"]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = [p.name for p in named if p.default is p.empty]
    others = [p.name for p in named if p.default is not p.empty]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if takes_any and dataclasses.is_dataclass(value):
        required = _asked_for(value, required)
    if isinstance(value, type) or takes_any or len(named) > MOST_PARAMETERS or len(required) > 1:
        others = ["*"]  # the fields of a class are in the schema
    return required, others


def _asked_for(cls: Any, required: list[str]) -> list[str]:
    """What a constructor that hands keywords on turns out to need: it is called and says so."""
    given: dict[str, Any] = dict.fromkeys(required, 1)
    for _ in range(5):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                cls(**given)
        except TypeError as error:
            text = str(error)
            if "missing" not in text or "required" not in text:
                break
            more = [name for name in text.split("'")[1::2] if name.isidentifier()]
            if not more or all(name in given for name in more):
                break
            given.update(dict.fromkeys(more, 1))
        except ValueError as error:
            if "seq_length" in given or "seq_length" not in str(error):
                break
            given["seq_length"] = 1
        except Exception:
            break
        else:
            break
    return list(given)


def _allowed() -> dict[str, list[str]]:
    """Which targets the release instantiates: prefixes and names that it allows, names and fields that it refuses."""
    module = importlib.import_module("megatron.bridge.utils.instantiate_utils")
    listed = getattr(module, "target_allowlist", None)
    prefixes = listed.allowed_prefixes if listed is not None else getattr(module, "_ALLOWED_TARGET_PREFIXES", ())
    return {
        "prefixes": sorted(prefixes),
        "exact": sorted({*getattr(listed, "allowed_exact", ()), *getattr(module, "_ALLOWED_PRIVATE_TARGETS", ())}),
        "refused": sorted(getattr(module, "_DISALLOWED_TARGETS", ())),
        "fields": sorted(getattr(module, "_DISALLOWED_CALLABLE_FIELD_NAMES", ())),
        "private": ["refused"] if hasattr(module, "_ALLOWED_PRIVATE_TARGETS") else [],
    }


def _torch() -> dict[str, list[str]]:
    """The names of torch itself, by what they are."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    dtypes, callables, values = [], [], []
    for name in sorted(dir(torch)):
        if not name.startswith("_"):
            value = getattr(torch, name, None)
            target = dtypes if isinstance(value, torch.dtype) else callables if callable(value) else values
            target.append(name)
    return {"dtypes": dtypes, "callables": callables, "values": values}
