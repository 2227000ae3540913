"""Every value the user wrote, with the field it is for."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Setting
from mbpack.config.shared import once
from mbpack.config.unknown_keys import SPECIAL
from mbpack.facts.schema import Field


class Written(NamedTuple):
    """A scalar the user wrote, with the field it is for."""

    path: str
    item: Item
    field: Field
    layer: Layer

    @property
    def kinds(self) -> frozenset[str]:
        """The alternatives of the field's type: ``int``, ``null``, ``list[int]`` ..."""
        return _kinds(self.field.type)

    @property
    def setting(self) -> Setting:
        return Setting(self.path, self.item.value, self.layer.origin, self.item, self.layer.document)


@lru_cache(512)  # a release has about a hundred types
def _kinds(text: str) -> frozenset[str]:
    kinds, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and not depth:
            kinds.append("")
        else:
            kinds[-1] += sign
    return frozenset(kinds)


@once
def written_texts(run: Run) -> list[Written]:
    """Those of the written values that are text, expressions included: few, and what most rules on kinds look at."""
    return [written for written in written_values(run) if isinstance(written.item.value, str)]


@once
def written_values(run: Run) -> list[Written]:
    """Every written value whose field is known, once per run."""
    found: list[Written] = []
    settings = run.settings
    for layer in reversed(settings.layers):
        if not isinstance(layer.root.value, dict):
            continue
        for section, item in layer.root.value.items():
            if isinstance(item.value, dict):
                _fields(run, layer, str(section), item, settings.class_at(str(section)), found)
            elif section in settings.schema.sections:
                found.append(Written(str(section), item, settings.schema.sections[section], layer))
    return found


def _fields(run: Run, layer: Layer, path: str, item: Item, cls: str | None, found: list[Written]) -> None:
    schema = run.settings.schema
    fields = schema.fields(cls) if cls else None
    if fields is None:
        fields = _guessed(run, path)
    if fields is None:
        return
    inner = None
    for name, child in item.value.items():
        if name in SPECIAL:
            continue
        field = fields.get(name)
        if field is None and path == "model" and cls is not None and schema.nested_transformer(cls):
            inner = inner or schema.fields(schema.transformer_class(cls) or "") or {}
            field = inner.get(name)
        if field is None:
            continue
        dotted = f"{path}.{name}"
        found.append(Written(dotted, child, field, layer))
        if child.value.__class__ is dict:
            target = child.value.get("_target_")
            owner = schema.class_of(target.value) if target is not None and isinstance(target.value, str) else None
            _fields(run, layer, dotted, child, owner or run.settings.class_at(dotted), found)


def _guessed(run: Run, path: str) -> dict[str, Field] | None:
    """Fields of a section whose class nobody names: what all classes of the release agree on, by their plainest class."""
    plain = {"model": "GPTModelProvider", "dataset": ""}.get(path)
    return dict(run.settings.schema.fields(plain) or {}) if plain else None
