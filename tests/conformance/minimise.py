"""Delta debugging: the smallest row on which mbpack and the real packages still disagree in the same way."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .judge import Judge
from .rows import Row

if TYPE_CHECKING:
    from .compare import Difference

KEEP = {"_target_"}
ROUNDS = 12


class Shrinker:
    """Removes keys (complete configurations) or blocks of lines (override files) while the class of the difference stays."""

    def __init__(self, release: str, mbpack: Sequence[str]) -> None:
        self.release, self.mbpack = release, mbpack
        self.judge = Judge(release)

    def __enter__(self) -> Shrinker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.judge.close()

    def shrink(self, found: Difference) -> Row:
        row = found.row
        for _ in range(ROUNDS):
            candidates = list(smaller(row))
            kept = [c for c, ok in zip(candidates, self._same([c for _, c in candidates], found), strict=True) if ok]
            if not kept:
                break
            row = self._together(row, [path for path, _ in kept], found) or kept[0][1]
        return self._judged([row])[0]

    def _together(self, row: Row, paths: list[Any], found: Difference) -> Row | None:
        """As many of the single removals at once as keep the difference."""
        while len(paths) > 1:
            tried = without(row, paths)
            if self._same([tried], found)[0]:
                return tried
            paths = paths[: len(paths) // 2]
        return None

    def _same(self, rows: list[Row], found: Difference) -> list[bool]:
        from .compare import difference, doctor

        rows = self._judged(rows)
        results = [difference(row, answer) for row, answer in zip(rows, doctor(self.mbpack, rows), strict=True)]
        return [d is not None and d.group == found.group for d in results]

    def _judged(self, rows: list[Row]) -> list[Row]:
        from .compare import KEPT

        verdicts = self.judge.judge(rows) if rows else []
        return [row | {k: verdict[k] for k in KEPT} for row, verdict in zip(rows, verdicts, strict=True)]


def smaller(row: Row) -> Iterator[tuple[Any, Row]]:
    """Every single removal, outermost first: what was removed, and the row without it."""
    if "config" in row:
        places: list[Any] = list(_paths(row["config"], ()))
    else:
        places = list(_blocks((row.get("yaml") or "").splitlines()))
    for place in places:
        yield place, without(row, [place])
    for pair in row.get("overrides", ()):
        yield pair, without(row, [pair])


def without(row: Row, places: Sequence[Any]) -> Row:
    """The row with the given places removed: key paths, line ranges, or KEY=VALUE pairs."""
    made = copy.deepcopy(row)
    drop: set[int] = set()
    for place in places:
        if isinstance(place, str):
            made["overrides"] = [p for p in made["overrides"] if p != place]
        elif isinstance(place, range):
            drop.update(place)
        else:
            node = made["config"]
            for key in place[:-1]:
                node = node.get(key, {}) if isinstance(node, dict) else {}
            if isinstance(node, dict):
                node.pop(place[-1], None)
    if drop:
        lines = made["yaml"].splitlines()
        made["yaml"] = "".join(f"{line}\n" for i, line in enumerate(lines) if i not in drop)
    return made


def _paths(tree: dict[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if key in KEEP:
            continue
        yield (*prefix, key)
        if isinstance(value, dict):
            yield from _paths(value, (*prefix, key))


def _blocks(lines: list[str]) -> Iterator[range]:
    """A line together with the more deeply indented lines below it."""
    for start, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        end = start + 1
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
            end += 1
        yield range(start, end)
