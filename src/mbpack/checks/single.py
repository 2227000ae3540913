"""Some checks of a table by themselves, and those that stay open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mbpack.checks.evaluate import Refusal, Start
from mbpack.checks.read import asked
from mbpack.checks.slices import Slice, Step
from mbpack.checks.values import canonical
from mbpack.config.settings import Unknown
from mbpack.facts.expert_settings import LEFT_OUT

_LEFT_OUT = frozenset(LEFT_OUT)
_ONLY = "only"


def only(start: Start, wanted: Callable[[str], bool], mark: str) -> list[Refusal]:
    """The refusals of some checks alone, by their names; ``mark`` tells these checks from others."""
    start.make_objects()
    start.run_block(start.table.start, "", _steps_to(start, wanted, mark))
    return [refusal for refusal in start.refusals if not refusal.error and wanted(refusal.name)]


def _steps_to(start: Start, wanted: Callable[[str], bool], mark: str) -> list[Step]:
    """The rows that decide some checks, the same for configurations whose objects have the same methods."""
    table = start.table
    kept: list[tuple[dict[Any, Any], list[Step]]] = table.memo.setdefault((_ONLY, mark), [])
    for resolved, steps in kept:
        if all(start.resolve(root, [None, None, call]) == target for (root, call), target in resolved.items()):
            return steps
    found: dict[Any, Any] = {}

    def resolve(root: str, row: list[Any]) -> tuple[str, str] | None:
        target = found[root, tuple(row[2])] = start.resolve(root, row)
        return target

    cut = Slice(table.block, table.uses, resolve, table.memo, set(), set(), start.values.read)
    steps = cut.steps_to(table.start, wanted)
    kept.append((found, steps))
    return steps


def unknown(start: Start) -> Iterator[tuple[str, Unknown]]:
    """The checks that are open because of a value that somebody wrote or that a recipe may set, each once, with that value."""
    lacks = start.values.unknown
    if not lacks:
        return
    settings, told = start.run.settings, set[str]()
    for check in start.open:
        reading = asked(start.table, check)
        written = {key for key in reading.keys if settings.written(canonical(start.run.release, key)) is not None}
        counts = written.union(reading.own, _LEFT_OUT) if written else written
        lacking = [lacks[key] for key in reading.keys if key in counts and key in lacks]
        if lacking and check.name not in told:
            told.add(check.name)
            yield check.name, lacking[0]
