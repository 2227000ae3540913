"""Which refusal a start-up shows first: the order of the tables where they know it, else that of the stations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mbpack.config.run import Run
from mbpack.facts.order import position
from mbpack.rules.base import Finding
from mbpack.rules.training.refused import REFUSED

if TYPE_CHECKING:
    from mbpack.checks.evaluate import Refusal

#: The last station of reading the file: the tables begin behind it.
_LOADED = "cfg/env-vars"


def first_of(run: Run, refusals: Sequence[Finding], fires: Callable[[Finding], tuple[int, int, int]]) -> Finding | None:
    """The finding of the refusal that comes first, None where nothing refuses."""
    first = min(refusals, key=fires, default=None)
    shown: list[Refusal] = run.memo.get(REFUSED, [])
    if first is None or not shown or position(run.release, first.station) <= position(run.release, _LOADED):
        return first
    from mbpack.checks.names import slugs
    from mbpack.rules.worded import worded

    entries = [worded(refusal.name) for refusal in shown]
    order = [
        (entry.slug,) if entry is not None else slugs().get(refusal.name, ())
        for entry, refusal in zip(entries, shown, strict=True)
    ]
    leading = [one for one in refusals if one.rule.slug in order[0]]
    later = any(first.rule.slug in said for said in order[1:])
    return min(leading, key=fires) if leading and later and first.rule.slug not in order[0] else first
