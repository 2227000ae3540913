"""The configuration classes of a tree: which there are, what they are for, and their fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from mbpack.facts.schema import Schema, classes
from mbpack.learn.lists.fields import Class, Entry, Reader
from mbpack.learn.lists.tree import Defined, Tree

CONFIG = "megatron.bridge.training.config"
CONTAINER = f"{CONFIG}.ConfigContainer"
#: A class is of the kind whose base it has.
_BASES = (
    ("model", "megatron.core.transformer.transformer_config.TransformerConfig"),
    ("model", "megatron.bridge.models.model_provider.ModelProviderMixin"),
    ("model", "megatron.bridge.models.common.base.ModelConfig"),
    ("model", "megatron.training.models.base.ModelConfig"),
    ("dataset", f"{CONFIG}.DatasetProvider"),
    ("dataset", f"{CONFIG}.GPTDatasetConfig"),
    ("dataset", f"{CONFIG}.DataloaderConfig"),
    ("dataset", "megatron.bridge.data.base.DataloaderConfig"),
    ("peft", "megatron.bridge.peft.base.PEFT"),
)
KINDS = ("model", "section", "dataset", "nested", "peft")
#: Defaults that depend on the machine, or that reading alone cannot tell.
UNREAD = {"~": "<unread>"}


class Collected(Struct):
    """Classes by name, the sections of the container, and what could not be read."""

    classes: dict[str, tuple[str, str, dict[str, Entry]]] = field(default_factory=dict)
    sections: dict[str, Entry] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # class.field whose default is not known
    borrowed: int = 0  # defaults taken from the release mbpack knows
    foreign: list[str] = field(default_factory=list)  # classes with a base outside the sources that may bring fields


def collect(reader: Reader, known: Schema) -> Collected:
    """Read the classes of a tree; ``known`` is the nearest release, which names classes and fills what cannot be read."""
    found = Collected()
    container = reader.at(CONTAINER)
    found.sections = dict(container.fields) if container is not None else {}
    here = {one.path: kind for one, kind in configurations(reader)}
    simple: dict[str, str] = {}
    for path in sorted(here):
        simple.setdefault(path.rpartition(".")[2], path)
    taken: set[str] = set()
    for kind in KINDS:
        for name in classes(known.release, kind):
            path = known.path(name) or ""
            own = reader.at(path) or reader.at(simple.get(name.rpartition(".")[2], ""))
            if own is None:
                found.gone.append(name)
                continue
            taken.add(own.path)
            _add(found, known, name, kind, own)
    for path, kind in sorted(here.items()):
        own = reader.at(path)
        if path not in taken and own is not None and kind:
            name = path.rpartition(".")[2]
            name = name if name not in found.classes else ".".join(path.split(".")[-2:])
            found.new.append(name)
            _add(found, known, name, kind, own)
    return found


def _add(found: Collected, known: Schema, name: str, kind: str, own: Class) -> None:
    before = known.raw_fields(name) or {}
    fields: dict[str, Entry] = {}
    for key, entry in own.fields.items():
        if len(entry) > 1 and entry[1] == UNREAD:
            other = before.get(key)
            if other is not None and other[0] == entry[0] and len(other) > 1:
                entry, found.borrowed = [entry[0], *other[1:]], found.borrowed + 1
            else:
                found.unread.append(f"{name}.{key}")
        fields[key] = entry
    if own.foreign and any(not base.startswith(("abc.", "typing.", "enum.", "torch.")) for base in own.foreign):
        missing = {key: entry for key, entry in before.items() if key not in fields}
        if missing and own.path == known.path(name):
            found.foreign.append(name)
            fields = {**missing, **fields}
    found.classes[name] = (own.path, kind, fields)


def configurations(reader: Reader) -> Iterator[tuple[Class, str]]:
    """Every class of Megatron-Bridge that is a dataclass, with its kind; "" where it is none of the known kinds."""
    for module in reader.tree.modules("megatron.bridge"):
        for name, node in module.names.items():
            if isinstance(node, ast.ClassDef):
                own = reader.class_of(Defined(module, name, node))
                if own.fields or own.is_dataclass:
                    yield own, _kind(own)


def _kind(own: Class) -> str:
    if any(own.node.name == path.rpartition(".")[2] for _, path in _BASES):
        return ""
    paths = {base.path for base in own.mro}
    return next((kind for kind, path in _BASES if path in paths), "")


def stated_version(tree: Tree) -> str:
    """The version that the sources state, "" where they state none."""
    module = tree.module("megatron.bridge.package_info")
    numbers: dict[str, Any] = {}
    for name, node in (module.names if module is not None else {}).items():
        if isinstance(node, ast.Constant):
            numbers[name] = node.value
    parts = [numbers.get(name) for name in ("MAJOR", "MINOR", "PATCH")]
    if not all(type(part) is int for part in parts):
        return ""
    return ".".join(map(str, parts)) + str(numbers.get("PRE_RELEASE") or "")
