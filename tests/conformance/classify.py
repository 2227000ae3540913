"""From an exception of the real packages to the slug of the check it stands for (the table is `checks.tsv`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("checks.tsv")


@dataclass(frozen=True)
class Check:
    slugs: tuple[str, ...]
    exception: re.Pattern[str]
    function: re.Pattern[str] | None
    message: re.Pattern[str]

    def matches(self, error: dict[str, str]) -> bool:
        return bool(
            self.exception.fullmatch(error["type"])
            and (self.function is None or self.function.fullmatch(error["caller"]))
            and self.message.search(error["message"])
        )


@lru_cache(maxsize=1)
def checks() -> tuple[Check, ...]:
    found = []
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            slug, exception, function, message = line.split("\t")
            where = None if function == "-" else re.compile(function)
            found.append(Check(tuple(slug.split("|")), re.compile(exception), where, re.compile(message)))
    return tuple(found)


def slug_of(verdict: dict[str, Any]) -> str | None:
    """Slug of the check that fired first; None when the table does not know the exception.

    The innermost cause decides: a loader wraps what a constructor raised.
    """
    for error in reversed(verdict["errors"]):
        for check in checks():
            if check.matches(error):
                return check.slugs[0]
    return None


@lru_cache(maxsize=1)
def _alternatives() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for check in checks():
        found[check.slugs[0]] = found.get(check.slugs[0], frozenset()) | frozenset(check.slugs)
    return found


def same(recorded: str | None, given: str) -> bool:
    """Whether a finding's slug names the recorded check: the same, or a more exact name for the same refusal."""
    return given in _alternatives().get(recorded or "", frozenset({recorded}))


def claimed(slug: str | None) -> bool:
    """Whether mbpack claims a rule for it (neither unknown nor in angle brackets)."""
    return slug is not None and not slug.startswith("<")
