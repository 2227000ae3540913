"""Find the configuration classes of an installed release: sections, models, datasets, PEFT methods, nested ones."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import pkgutil
import sys
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import reflect

ORDER = ("model", "section", "dataset", "nested", "peft", "base")  # of the lines in the data file


def import_everything(package: str) -> dict[str, str]:
    """Import every module of a package, so that all subclasses exist; returns what could not be imported, and why."""
    failed = {}
    root = importlib.import_module(package)
    for info in pkgutil.walk_packages(root.__path__, package + ".", onerror=lambda name: None):
        try:
            importlib.import_module(info.name)
        except BaseException as error:
            failed[info.name] = f"{type(error).__name__}: {error}".splitlines()[0][:150]
    return failed


def module_names(package: str) -> list[str]:
    """All modules of a package, importable or not."""
    root = importlib.import_module(package)
    found = [package]
    found += [i.name for i in pkgutil.walk_packages(root.__path__, package + ".", onerror=lambda name: None)]
    return sorted(found)


def subclasses(cls: type) -> Iterator[type]:
    """A class and everything that derives from it."""
    yield cls
    for child in type.__subclasses__(cls):
        yield from subclasses(child)


def classes_in(annotated: Any) -> Iterator[type]:
    """The classes that a type annotation mentions."""
    if isinstance(annotated, type) and not typing.get_args(annotated):
        yield annotated
    for argument in typing.get_args(annotated):
        yield from classes_in(argument)


def is_configuration(cls: type) -> bool:
    """Whether a class is one of Megatron's dataclasses that can be imported by its name."""
    return (
        dataclasses.is_dataclass(cls)
        and cls.__module__.startswith("megatron.")
        and getattr(sys.modules[cls.__module__], cls.__name__, None) is cls
    )


def reached(cls: type) -> Iterator[type]:
    """The configuration classes that the fields of a class mention."""
    for field in dataclasses.fields(cls):
        for found in classes_in(reflect.annotation(cls, field)):
            if is_configuration(found):
                yield found


def collect(seen: Iterable[Any]) -> dict[str, Any]:
    """Everything about the classes of the release. `seen`: configuration objects that recipes returned."""
    config = importlib.import_module("megatron.bridge.training.config")
    container = config.ConfigContainer
    instances: dict[type, Any] = {}
    for value in seen:
        instances.setdefault(type(value), value)
    kinds = _kinds(container, instances)
    used = set(instances)
    section_classes = _section_classes(container)
    named = _names(kinds, lambda c: (c not in used and c not in section_classes.values(), reflect.path_of(c)))
    classes = {
        name: {
            "path": reflect.path_of(cls),
            "kind": kinds[cls],
            "fields": reflect.fields_of(cls),
            "attributes": sorted(reflect.attributes_of(cls, instances.get(cls))),
        }
        for name, cls in sorted(named.items(), key=lambda n: (ORDER.index(kinds[n[1]]), n[0] != "GPTModelProvider", n[0]))
    }
    short = {cls: name for name, cls in named.items()}
    return {
        "sections": reflect.fields_of(container),
        "section_classes": {s: short[c] for s, c in section_classes.items()},
        "classes": classes,
        "model_fields": _union(classes, "model"),
        "dataset_fields": _union(classes, "dataset"),
        "enums": _enums(named.values()),
        "mixed_precision": _mixed_precision(),
        "aliases": _aliases(short),
        "modules": front_coded(module_names("megatron.bridge")),
    }


def _place(name: str, cls: type, kinds: dict[type, str]) -> tuple[int, bool, str]:
    """The order of the data file; the plain GPT provider first, because the other models resemble it."""
    return ORDER.index(kinds[cls]), name != "GPTModelProvider", name


def _section_classes(container: type) -> dict[str, type]:
    """Sections that hold one class only (name -> class)."""
    found = {}
    for field in dataclasses.fields(container):
        candidates = {c for c in classes_in(reflect.annotation(container, field)) if is_configuration(c)}
        if len(candidates) == 1 and field.name not in ("model", "dataset", "peft"):
            found[field.name] = candidates.pop()
    return found


def _kinds(container: type, instances: dict[type, Any]) -> dict[type, str]:
    """Every configuration class with its kind."""
    base = importlib.import_module("megatron.core.transformer.transformer_config").TransformerConfig
    mixin = importlib.import_module("megatron.bridge.models.model_provider").ModelProviderMixin
    models: list[type] = [base, mixin]
    for module in ("megatron.bridge.models.common.base", "megatron.training.models.base"):
        found = getattr(sys.modules.get(module), "ModelConfig", None)
        models += [found] if found else []
    peft = importlib.import_module("megatron.bridge.peft.base").PEFT
    config = importlib.import_module("megatron.bridge.training.config")
    datasets: list[type] = [config.DatasetProvider, config.GPTDatasetConfig]
    sections = dataclasses.fields(container)
    by_section = {f.name: list(classes_in(reflect.annotation(container, f))) for f in sections}
    datasets += [c for c in by_section["dataset"] if is_configuration(c)]
    models += [c for c in by_section["model"] if is_configuration(c)]
    kinds: dict[type, str] = {}

    def add(cls: type, kind: str) -> None:
        if cls in kinds or not is_configuration(cls) or cls is container:
            return
        if cls.__module__.startswith("megatron.core.") and kind in ("model", "dataset") and cls not in instances:
            return
        kinds[cls] = kind

    for kind, roots in (("model", models), ("dataset", datasets), ("peft", [peft])):
        for root in roots:
            for cls in subclasses(root):
                add(cls, kind)
    for name, candidates in by_section.items():
        if name not in ("model", "dataset", "peft"):
            for cls in candidates:
                add(cls, "section")
    for value in (*instances, *_defined_in("megatron.bridge.data")):
        add(value, "nested")
    pending = list(kinds)
    while pending:  # what they mention, and what derives from that
        for cls in reached(pending.pop()):
            for child in subclasses(cls):
                if is_configuration(child) and child not in kinds and not child.__module__.startswith("megatron.core."):
                    kinds[child] = "nested"
                    pending.append(child)
    for cls in list(kinds):  # what they derive from: a file may name that instead
        for base in cls.__mro__[1:]:
            ours = base.__module__.startswith(("megatron.bridge.", "megatron.core.", "megatron.training."))
            if ours and is_configuration(base) and base not in kinds and not inspect.isabstract(base):
                kinds[base] = "base"
    return kinds


def _defined_in(package: str) -> Iterator[type]:
    """The configuration classes that the imported modules of a package define."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith(package + "."):
            for value in vars(module).values():
                if type(value) is type and is_configuration(value) and value.__module__ == name:
                    yield value


def _names(kinds: dict[type, str], rank: Any) -> dict[str, type]:
    """A short name for every class; the second of two with the same name gets its module in front."""
    named: dict[str, type] = {}
    for cls in sorted(kinds, key=rank):
        parts = reflect.path_of(cls).split(".")
        name = next(n for i in range(1, len(parts)) if (n := ".".join(parts[-i:])) not in named)
        named[name] = cls
    return named


def _union(classes: dict[str, Any], kind: str) -> list[str]:
    return sorted({f for c in classes.values() if c["kind"] == kind for f in c["fields"]})


def _enums(found: Iterable[type]) -> dict[str, dict[str, int]]:
    """The enumerations that fields mention or hold."""
    enums: dict[str, type[enum.Enum]] = {}
    for cls in found:
        for field in dataclasses.fields(cls):
            for mentioned in classes_in(reflect.annotation(cls, field)):
                if isinstance(mentioned, type) and issubclass(mentioned, enum.Enum):
                    enums[mentioned.__name__] = mentioned
    return {n: {m.name: m.value for m in e} for n, e in sorted(enums.items())}


def _mixed_precision() -> dict[str, dict[str, Any]]:
    """What each name of a mixed-precision recipe sets."""
    module = importlib.import_module("megatron.bridge.training.mixed_precision")
    return {name: reflect.differences(make()) for name, make in sorted(module.MIXED_PRECISION_RECIPES.items())}


def _aliases(short: dict[type, str]) -> dict[str, dict[str, str]]:
    """Other import paths of the classes: module -> {attribute: short name}."""
    found: dict[str, dict[str, str]] = {}
    known = {id(cls): name for cls, name in short.items()}  # stand-ins for missing libraries refuse to be hashed
    for name, module in sorted(sys.modules.items()):
        if name.startswith("megatron."):
            for attribute, value in sorted(vars(module).items()):
                if id(value) in known and f"{name}.{attribute}" != reflect.path_of(value):
                    found.setdefault(name, {})[attribute] = known[id(value)]
    return found


def front_coded(names: list[str]) -> list[str]:
    """Sorted dotted names as "<number of leading parts shared with the one before> <rest>"."""
    coded: list[str] = []
    before: list[str] = []
    for name in names:
        parts = name.split(".")
        shared = 0
        while shared < min(len(before), len(parts)) and before[shared] == parts[shared]:
            shared += 1
        coded.append(f"{shared} {'.'.join(parts[shared:])}")
        before = parts
    return coded
