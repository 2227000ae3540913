"""The same settings as KEY=VALUE arguments, for launchers that take no file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mbpack.wizard.draft import Draft
from mbpack.wizard.plan import Plan
from mbpack.wizard.yaml_text import flow

#: Text that Hydra's grammar takes without quotes.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./:@%+-]*\Z")
#: Backslashes before a quote or at the end: Hydra reads two as one there, and every other one as it is.
_BEFORE_QUOTE = re.compile(r"(\\+)('|\Z)")
_WORDS = frozenset("true false yes no on off null none nan inf".split())


def arguments(plan: Plan) -> list[str]:
    """One argument a setting, in the order of the file.

    A plain key must exist in the recipe's configuration (struct mode); ``++`` sets it in any case and is used for new
    entries of free mappings, for objects given as a whole, and below fields that the recipe leaves null.
    """
    return [f"{_sign(plan.draft, key, value)}{key}={argument_value(value)}" for key, value in _settings(plan)]


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


def _sign(draft: Draft, key: str, value: Any) -> str:
    section, _, field = key.partition(".")
    fields = draft.schema.fields(draft.base.settings.class_at(section) or "") or {}
    return "" if field in fields and not isinstance(value, Mapping) else "++"


def argument_value(value: Any) -> str:
    """A plain value in Hydra's override grammar."""
    return flow(value, ",", ":", _text)


def _text(text: str) -> str:
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return "'" + _BEFORE_QUOTE.sub(r"\1\1\2", text).replace("'", r"\'") + "'"
