"""The figures of a comparison as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Line:
    """One release and kind of rows, or the sum of several. ``first`` counts the rightly rejected whose first error agrees."""

    release: str
    kind: str
    rows: int
    accepted: int
    missed: int
    false: int
    unknown: int
    first: int
    first_of: int
    derived_wrong: int
    unclaimed: int
    broken: int
    seconds: float

    @classmethod
    def of(cls, release: str, kind: str, counts: Mapping[str, int], seconds: float) -> Line:
        """From the counts of a tally (a Counter)."""
        plain = {
            name: counts[name] for name in ("rows", "accepted", "missed", "false", "unknown", "first_of", "unclaimed", "broken")
        }
        return cls(
            release, kind, first=counts["first_of"] - counts["first"], derived_wrong=counts["derived"], seconds=seconds, **plain
        )

    @property
    def wrong(self) -> int:
        """Rows on which mbpack is wrong or has no answer; those that no rule claims are not among them."""
        return self.missed + self.false + self.unknown + self.first_of - self.first + self.derived_wrong + self.broken


HEADS = "release kind rows accepted missed false unknown first-error derived-wrong no-rule broken min".split()


def render(lines: Sequence[Line]) -> str:
    """The lines, and their sum below where there are several."""
    if len(lines) > 1:
        numbers = [field.name for field in fields(Line)[2:]]
        lines = [*lines, Line("all", "", **{name: sum(getattr(line, name) for line in lines) for name in numbers})]
    table = [HEADS, *map(_cells, lines)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table)


def _cells(line: Line) -> list[str]:
    share = 100 * line.first / line.first_of if line.first_of else 100.0
    numbers = (line.rows, line.accepted, line.missed, line.false, line.unknown)
    first = f"{line.first:,}/{line.first_of:,} ({share:.2f}%)"
    tail = (line.derived_wrong, line.unclaimed, line.broken)
    return [line.release, line.kind, *(f"{n:,}" for n in numbers), first, *(f"{n:,}" for n in tail), f"{line.seconds / 60:.1f}"]
