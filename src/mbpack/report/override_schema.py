"""JSON Schema of override files and saved configurations of a release, for editors and check-jsonschema.

Types are those of `facts.schema` (upstream's annotations, widened by what defaults and shipped recipes hold), and null where a saved
configuration has it. A key of the model or the dataset may belong to any of their classes. Every value may also be an expression
(`${...}`), `???`, or an object that is made (`_target_`).
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
_SHARED = {"model": "any_model_fields", "dataset": "any_dataset_fields"}


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
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Megatron-Bridge {release_name} configuration",
        "description": "Override files and saved run_config.yaml files; made by mbpack schema overrides.",
        "type": "object",
        "properties": {"_target_": {"type": "string"}}
        | {name: _section(known, release, name, nulls) for name in sorted(known.sections)},
    }


def _section(known: Schema, release: Release, name: str, nulls: frozenset[str]) -> dict[str, Any]:
    cls = known.section_class(name)
    if cls is not None:
        return _any_of(_object(release, name, known.fields(cls) or {}, nulls), {"type": ["null", "string"]})
    if name in _SHARED:
        return _any_of(_shared(known, release, name, nulls), {"type": ["null", "string"]})
    return {}


def _shared(known: Schema, release: Release, section: str, nulls: frozenset[str]) -> dict[str, Any]:
    """A section of many classes: the keys of all, and of one where `_target_` names it."""
    classes = list(_classes(known, section))
    merged: dict[str, list[Field]] = {}
    for cls in classes:
        for name, field in (known.fields(cls) or {}).items():
            merged.setdefault(name, []).append(field)
    properties = {name: _described(release, f"{section}.{name}", fields, nulls) for name, fields in sorted(merged.items())}
    return {"type": "object", "properties": _instantiated(properties), "additionalProperties": False}


def _classes(known: Schema, kind: str) -> Iterator[str]:
    return (cls for cls in known.classes() if known.kind(cls) == kind)


def _object(release: Release, path: str, fields: Mapping[str, Field], nulls: frozenset[str]) -> dict[str, Any]:
    properties = {name: _described(release, f"{path}.{name}", [field], nulls) for name, field in sorted(fields.items())}
    return {"type": "object", "properties": _instantiated(properties), "additionalProperties": False}


def _instantiated(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: {} for name in _INSTANTIATION} | properties


def _described(release: Release, path: str, fields: list[Field], nulls: frozenset[str]) -> dict[str, Any]:
    """One key: its kinds, its default where all classes share it, and what it is, in the words of `mbpack explain`."""
    kinds = [kind for field in fields for kind in _split(field.type)]
    default = fields[0].default
    if default is not NO_DEFAULT and not isinstance(default, Opaque):
        kinds.append(_kind_of(default))
    if path in nulls:
        kinds.append("null")
    found = _kinds(kinds)
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


def _kinds(kinds: list[str]) -> dict[str, Any]:
    """The schema of a value of any of these kinds; open where one of them is an object or a list."""
    choices: list[dict[str, Any]] = []
    for kind in dict.fromkeys(kinds):
        literal = _LITERAL.match(kind)
        if literal is not None:
            values = [_value(text) for text in literal[1].split(",")]
            choices.append({"enum": values})
        elif kind in _KINDS:
            choices.append(_KINDS[kind])
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
