"""What is done to a consistent configuration: violations of single checks, and odd spellings that may or may not matter.

Each function changes a draft and says with `needs` when it makes sense. Near-boundary values are drawn on both sides, so a
"violation" is at times none: only the real packages decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..draft import Draft

Change = Callable[[Draft], None]
Needs = Callable[[Draft], bool]
VIOLATIONS: list[tuple[str, Needs, Change]] = []
ODDITIES: list[tuple[str, Needs, Change]] = []


def apply(draft: Draft, table: list[tuple[str, Needs, Change]]) -> None:
    """One change that fits the draft."""
    name, _, change = draft.rng.choice([entry for entry in table if entry[1](draft)])
    change(draft)
    draft.aim.append(name)


def _into(table: list[tuple[str, Needs, Change]], needs: Needs) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        table.append((change.__name__, needs, change))
        return change

    return register


def violation(needs: Needs = lambda d: True) -> Callable[[Change], Change]:
    return _into(VIOLATIONS, needs)


def oddity(needs: Needs = lambda d: True) -> Callable[[Change], Change]:
    return _into(ODDITIES, needs)


def pick(draft: Draft, *values: Any) -> Any:
    return draft.rng.choice(values)


def offline(d: Draft) -> bool:
    return d.packing == "offline" and bool(d.specs())


def in_batch(d: Draft) -> bool:
    return d.packing == "in_batch"


def text(d: Draft) -> bool:
    return d.data_kind in ("text", "text_alias", "hf_text")


def later(d: Draft) -> bool:
    return d.names.later


def collated(d: Draft) -> bool:
    return d.names.later and d.data_kind in ("conversation", "energon", "mock_vlm")


def energon(d: Draft) -> bool:
    return d.names.later and d.data_kind == "energon"
