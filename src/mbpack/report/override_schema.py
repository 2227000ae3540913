"""JSON Schema of override files and saved configurations of a release, for editors and check-jsonschema.

Types are those of `facts.schema` (upstream's annotations, widened by what defaults and shipped recipes hold), and null where a saved
configuration has it. A key of the model or the dataset may belong to any of their classes. Every value may also be an expression
(`${...}`), `???`, or an object that is made (`_target_`). Where `_target_` names a class that mbpack knows, only the keys of this
class are taken. The classes share most of their keys, so these are kept in groups (`$defs`) that belong to the same classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mbpack import facts
from mbpack.facts.derivations import MEANINGS
from mbpack.facts.keys import canonical_name
from mbpack.facts.releases import RELEASES, Release
from mbpack.facts.schema import NO_DEFAULT, Field, Opaque, Schema, schema

#: What every object of a configuration file may hold beside its fields.
_INSTANTIATION = ("_target_", "_args_", "_call_", "_partial_", "_name_")
_KINDS: dict[str, dict[str, Any]] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "null": {"type": "null"},
}
_EXPRESSION = {"type": "string", "pattern": r"\$\{|^\?\?\?$"}
_MADE = {"type": "object", "required": ["_target_"]}
_LITERAL = re.compile(r"literal\[(.*)\]$")
_SHARED = ("model", "dataset", "peft")


@cache
def _saved_nulls() -> frozenset[str]:
    """Keys that saved configurations leave null against their class (`tools/saved_nulls.py`)."""
    return frozenset((Path(facts.__path__[0]) / "data" / "saved-nulls.txt").read_text(encoding="utf-8").split())


def allows_null(found: Mapping[str, Any]) -> bool:
    """Whether the schema of one key takes null."""
    return not found.get("anyOf") or _KINDS["null"] in found["anyOf"]


def override_schema(release_name: str, saved_nulls: frozenset[str] | None = None) -> dict[str, Any]:
    """The schema of a release ("0.3" ... "nightly"); ``saved_nulls`` for those who collect them anew."""
    nulls = _saved_nulls() if saved_nulls is None else saved_nulls
    release = next(release for release in RELEASES if release.name == release_name)
    known = schema(release_name)
    groups: dict[str, Any] = {}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Megatron-Bridge {release_name} configuration",
        "description": "Override files and saved run_config.yaml files; made by mbpack schema overrides.",
        "type": "object",
        "properties": {"_target_": {"type": "string"}}
        | {name: _section(known, release, name, nulls, groups) for name in sorted(known.sections)},
        "$defs": groups | {cls: _nested(known, release, cls) for cls in _classes(known, "nested")},
    }


def _section(known: Schema, release: Release, name: str, nulls: frozenset[str], groups: dict[str, Any]) -> dict[str, Any]:
    cls = known.section_class(name)
    if cls is not None:
        return _any_of(_object(known, release, name, known.fields(cls) or {}, nulls), {"type": ["null", "string"]})
    if name in _SHARED:
        return _any_of(_shared(known, release, name, nulls, groups), {"type": ["null", "string"]})
    return {}


def _shared(known: Schema, release: Release, section: str, nulls: frozenset[str], groups: dict[str, Any]) -> dict[str, Any]:
    """A section of many classes: the keys of all, and those of one class where `_target_` names it."""
    merged: dict[str, list[Field]] = {}
    holders: dict[str, list[str]] = {}
    for cls in _classes(known, section):
        for name, field in (known.fields(cls) or {}).items():
            merged.setdefault(name, []).append(field)
            holders.setdefault(name, []).append(cls)
    properties = {name: _described(known, release, f"{section}.{name}", fields, nulls) for name, fields in sorted(merged.items())}
    found = {"type": "object", "properties": _instantiated(properties), "additionalProperties": False}
    return found | {"allOf": _branches(known, section, holders, groups)}


def _branches(known: Schema, section: str, holders: Mapping[str, list[str]], groups: dict[str, Any]) -> list[dict[str, Any]]:
    """For each class of a section: where `_target_` is its path, every key is in one of its groups."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name, classes in sorted(holders.items()):
        together.setdefault(tuple(classes), []).append(name)
    own: dict[str, list[dict[str, str]]] = {}
    for number, (owners, names) in enumerate(together.items()):
        groups[f"{section}-{number}"] = {"enum": names}
        for cls in owners:
            own.setdefault(cls, []).append({"$ref": f"#/$defs/{section}-{number}"})
    return [
        {
            "if": {"required": ["_target_"], "properties": {"_target_": {"const": known.path(cls)}}},
            "then": {"propertyNames": {"anyOf": [{"enum": list(_INSTANTIATION)}, *refs]}},
        }
        for cls, refs in own.items()
    ]


def _nested(known: Schema, release: Release, cls: str) -> dict[str, Any]:
    """An object inside a section, such as the packing specs; another class may stand in its place, whose keys are its own."""
    fields = known.fields(cls) or {}
    found = _object(known, release, "", fields, frozenset())
    del found["additionalProperties"]
    other = {"required": ["_target_"], "properties": {"_target_": {"not": {"const": known.path(cls)}}}}
    return found | {"if": {"not": other}, "then": {"propertyNames": {"enum": [*_INSTANTIATION, *fields]}}}


def _classes(known: Schema, kind: str) -> Iterator[str]:
    return (cls for cls in known.classes() if known.kind(cls) == kind)


def _object(known: Schema, release: Release, path: str, fields: Mapping[str, Field], nulls: frozenset[str]) -> dict[str, Any]:
    properties = {name: _described(known, release, f"{path}.{name}", [field], nulls) for name, field in sorted(fields.items())}
    return {"type": "object", "properties": _instantiated(properties), "additionalProperties": False}


def _instantiated(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: {} for name in _INSTANTIATION} | properties


def _described(known: Schema, release: Release, path: str, fields: list[Field], nulls: frozenset[str]) -> dict[str, Any]:
    """One key: its kinds, its default where all classes share it, and what it is, in the words of `mbpack explain`."""
    kinds = [kind for field in fields for kind in _split(field.type)]
    default = fields[0].default
    if default is not NO_DEFAULT and not isinstance(default, Opaque):
        kinds.append(_kind_of(default))
    if path in nulls:
        kinds.append("null")
    found = _kinds(known, kinds)
    meaning = MEANINGS.get(canonical_name(release, path))
    if meaning is not None:
        found["description"] = meaning.text
    if len({repr(field.default) for field in fields}) == 1 and isinstance(default, (str, int, bool, type(None))):
        found["default"] = default
    return found


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "bool", int: "int", float: "float", str: "str"}.get(type(value), "any")


def _kinds(known: Schema, kinds: list[str]) -> dict[str, Any]:
    """The schema of a value of any of these kinds; open where one of them is a list or an object of a class that is not known."""
    choices: list[dict[str, Any]] = []
    for kind in dict.fromkeys(kinds):
        literal = _LITERAL.match(kind)
        if literal is not None:
            values = [_value(text) for text in literal[1].split(",")]
            choices.append({"enum": values})
        elif kind in _KINDS:
            choices.append(_KINDS[kind])
        elif known.kind(kind) == "nested":
            choices.append({"$ref": f"#/$defs/{kind}"})
        else:
            return {}
    return {"anyOf": [*choices, _EXPRESSION, _MADE]}


def _value(text: str) -> str | int:
    return int(text) if re.fullmatch(r"-?\d+", text) else text.strip("'\"")


def _split(kind: str) -> list[str]:
    """The alternatives of a type, split at the bars outside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(kind):
        depth += (char == "[") - (char == "]")
        if char == "|" and not depth:
            parts.append(kind[start:at])
            start = at + 1
    return [*parts, kind[start:]]


def _any_of(*choices: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(choices)}
