"""Keys a user wrote that the release's schema does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mbpack.config.document import Item
from mbpack.config.layering import is_below
from mbpack.config.settings import Layer, Origin, Setting, Settings
from mbpack.facts.keys import KEYWORD_ALIASES, SPECS, SPECS_CLASS, parts_in
from mbpack.facts.names import names
from mbpack.facts.schema import Field

#: Keys of an instantiation mapping that are no fields.
SPECIAL = frozenset({"_target_", "_call_", "_args_", "_partial_", "_name_"})


class UnknownKey(NamedTuple):
    """A written key without a field: its dotted path, where it stands, and the class that lacks it (None: a section)."""

    path: str
    setting: Setting
    owner: str | None
    known: tuple[str, ...]
    in_target: bool  # the owner's mapping names a ``_target_``, so the keyword is dropped by the constructor
    offset: int  # where the strict loader meets it: when it builds the owner; sections before anything else
    is_text: bool = True  # False for a key that YAML reads as a number or the like


def unknown_keys(settings: Settings) -> list[UnknownKey]:
    """Every unknown key of every layer, in the order of writing. Children of an unknown key are not looked at."""
    return settings.once(_unknown_keys)


def _unknown_keys(settings: Settings) -> list[UnknownKey]:
    return list(_of_layers(settings))


def _of_layers(settings: Settings) -> Iterator[UnknownKey]:
    for layer in reversed(settings.layers):
        if layer.origin is Origin.OVERRIDE or not isinstance(layer.root.value, dict):
            continue
        sections = settings.schema.sections
        for name, item in layer.root.value.items():
            if name in SPECIAL:
                continue
            if name not in sections:
                yield UnknownKey(
                    str(name), _setting(str(name), item, layer), None, tuple(sections), False, -1, name.__class__ is str
                )
            elif isinstance(item.value, dict):
                yield from _in_section(settings, layer, str(name), item)


def _in_section(settings: Settings, layer: Layer, section: str, item: Item) -> Iterator[UnknownKey]:
    schema = settings.schema
    cls = settings.class_at(section)
    if cls is None and (is_below(layer.document.made, (section,)) or is_below(layer.document.opaque, (section,))):
        return  # of a class of the program's own
    if cls is None and "_target_" not in item.value:
        known = {"model": schema.any_model_fields, "dataset": schema.any_dataset_fields}.get(section)
        if known is not None and not settings.complete:
            names = known()
            for name, child in item.value.items():
                if name not in names and name not in SPECIAL:
                    yield UnknownKey(
                        f"{section}.{name}",
                        _setting(f"{section}.{name}", child, layer),
                        None,
                        tuple(names),
                        False,
                        item.span.end,
                        name.__class__ is str,
                    )
                elif section == "dataset" and child.value.__class__ is dict:
                    yield from _nested(settings, layer, f"{section}.{name}", child)
        return
    if cls is not None:
        yield from _in_object(settings, layer, section, item, cls)
    elif settings.complete and "_target_" in item.value:
        yield from _of_function(settings, layer, section, item)


def _of_function(settings: Settings, layer: Layer, path: str, item: Item) -> Iterator[UnknownKey]:
    """Arguments that a function does not take."""
    target = item.value["_target_"].value
    found = names(settings.version.release.name).locate(target) if isinstance(target, str) else None
    if found is None or found.kind != "function" or found.others is None:
        return
    known = (*found.required, *found.others)
    for name, child in item.value.items():
        if name not in known and name not in SPECIAL:
            dotted = f"{path}.{name}"
            yield UnknownKey(
                dotted,
                _setting(dotted, child, layer),
                target.rpartition(".")[2],
                known,
                True,
                item.span.end,
                name.__class__ is str,
            )


def _in_object(settings: Settings, layer: Layer, path: str, item: Item, cls: str) -> Iterator[UnknownKey]:
    fields = settings.schema.fields(cls)
    if fields is None:
        return
    attributes: frozenset[str] | None = None
    inner: Mapping[str, Field] | None = None
    target = "_target_" in item.value
    for name, child in item.value.items():
        if name in SPECIAL:
            continue
        if name not in fields:
            if name in KEYWORD_ALIASES.get(cls, ()):
                continue
            if attributes is None:
                attributes = settings.schema.attributes(cls) if not settings.complete else frozenset()
                if not settings.complete and settings.schema.nested_transformer(cls):
                    inner = settings.schema.fields(settings.schema.transformer_class(cls) or "")
            if name not in attributes and (inner is None or name not in inner):
                dotted = f"{path}.{name}"
                yield UnknownKey(
                    dotted, _setting(dotted, child, layer), cls, tuple(fields), target, item.span.end, name.__class__ is str
                )
        elif child.value.__class__ is dict:
            yield from _nested(settings, layer, f"{path}.{name}", child)


def _nested(settings: Settings, layer: Layer, path: str, item: Item) -> Iterator[UnknownKey]:
    """Keys inside an object below a section: specs, preprocessing, a nested transformer."""
    target = item.value.get("_target_")
    cls = settings.schema.class_of(target.value) if target is not None and isinstance(target.value, str) else None
    if cls is None and settings.complete:
        return  # it stays a plain dictionary
    if cls is None and tuple(path.split(".")) == parts_in(settings.version.release, SPECS):
        cls = SPECS_CLASS
    if cls is None and path == "model.transformer":
        cls = settings.class_at("model.transformer")
    if cls is None and target is None and settings.recipe is not None:
        held = settings.recipe.values.get(path)
        if isinstance(held, Mapping) and isinstance(held.get("_target_"), str):
            cls = settings.schema.class_of(held["_target_"])
    if cls is not None:
        yield from _in_object(settings, layer, path, item, cls)


def _setting(path: str, item: Item, layer: Layer) -> Setting:
    return Setting(path, item.value, layer.origin, item, layer.document)
