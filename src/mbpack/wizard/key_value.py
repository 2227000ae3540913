"""The same settings as KEY=VALUE arguments, for launchers that take no file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mbpack.wizard.draft import Draft
from mbpack.wizard.plan import Plan
from mbpack.wizard.yaml_text import Line

#: Text that Hydra's grammar takes without quotes.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./:@%+-]*\Z")
_WORDS = frozenset("true false yes no on off null none nan inf".split())


def arguments(plan: Plan) -> list[str]:
    """One argument a setting, in the order of the file.

    A plain key must exist in the recipe's configuration (struct mode); ``++`` sets it in any case and is used for new
    entries of free mappings, for objects given as a whole, and below fields that the recipe leaves null.
    """
    return [f"{_sign(plan.draft, key)}{key}={_value(value)}" for key, value in _settings(plan)]


def command_words(plan: Plan) -> list[str]:
    """The arguments quoted for a shell."""
    return [shlex.quote(argument) for argument in arguments(plan)]


def _settings(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Settings with the fields of a new object together in one mapping."""
    objects: dict[str, dict[str, Any]] = {}
    for line in plan.lines:
        owner, _, field = line.key.rpartition(".")
        if field == "_target_" and owner.count(".") > 0:
            objects[owner] = {}
    for line in plan.lines:
        owner, _, field = line.key.rpartition(".")
        if owner in objects:
            objects[owner][field] = line.value
    done: set[str] = set()
    for line in plan.lines:
        owner = line.key.rpartition(".")[0]
        if owner not in objects:
            yield line.key, line.value
        elif owner not in done:
            done.add(owner)
            yield owner, objects[owner]


def _sign(draft: Draft, key: str) -> str:
    section, _, field = key.partition(".")
    fields = draft.schema.fields(draft.base.settings.class_at(section) or "") or {}
    exists = field in fields
    return "" if exists and not _is_object(draft, key) else "++"


def _is_object(draft: Draft, key: str) -> bool:
    """Whether the value at a key is given as a mapping, whose new entries struct mode would refuse."""
    return key in _MAPPINGS


_MAPPINGS = frozenset(
    "dataset.offline_packing_specs dataset.packed_sequence_specs dataset.preprocessing dataset.hf_dataset dataset.source"
    " dataset.task_encoder".split()
)


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_value(item)}" for key, item in value.items()) + "}"
    text = str(value)
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" if "\\" not in text else repr(text)


__all__ = ["Line", "arguments", "command_words"]
