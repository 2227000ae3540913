"""Record a corpus of real verdicts for a release.

    python -m tests.conformance.record --bridge 0.6.2 --rows 2000 --overrides 300 --seed 20
    python -m tests.conformance.record --bridge 0.6.2 --judged rows.jsonl.gz      # complete rows that `compare --save` kept
    python -m tests.conformance.record --bridge 0.6.2 --fields rows.jsonl.gz      # rows of `compare --kind fields` that it kept

Writes tests/data/verdicts/<line>.jsonl.gz (complete configurations), tests/data/overrides/<line>.jsonl.gz (override files on
recipes) and tests/data/fields/<line>.jsonl.gz (recorded complete configurations with one change); the same arguments give the same bytes. About half of the rows are accepted. A rejected row carries the
slug of the check that fired first; rejections that mbpack claims no rule for are left out and counted, so are exceptions
that `checks.tsv` does not know. No check takes more than a twentieth of a file, so that rare ones are not drowned.
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import classify
from .compare import judged, named
from .generator import complete_rows
from .judge import load_recipes
from .overrides import override_rows
from .real import environments
from .rows import DATA, Row, read, write

FIELDS = ("id", "release", "recipe", "gpus", "launcher", "config", "yaml", "expect", "check", "derived")
CHUNK = 250


class Selection:
    """Which judged rows enter the file."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.rows: list[Row] = []
        self.counts: collections.Counter[str] = collections.Counter()
        self.left_out: collections.Counter[str] = collections.Counter()

    def offer(self, row: Row) -> None:
        check = row["check"] or "accepted"
        if row["expect"] == "rejected" and not classify.claimed(row["check"]):
            error = row["errors"][-1]
            self.left_out[row["check"] or f"unknown: {error['type']} in {error['caller']}: {error['message'][:80]}"] += 1
            return
        limit = self.wanted // 2 if check == "accepted" else max(3, self.wanted // 20)
        if self.counts[check] >= limit or self.full:
            return
        self.counts[check] += 1
        self.rows.append({key: row[key] for key in FIELDS if key in row})

    @property
    def full(self) -> bool:
        return len(self.rows) >= self.wanted


def record(release: str, candidates: Iterable[Row], wanted: int, jobs: int) -> Selection:
    """Judge candidates until enough rows are chosen, or there are no more."""
    selection = Selection(wanted)
    for chunk in _chunks(candidates):
        for row in judged(release, chunk, jobs):
            selection.offer(row)
        print(f"{release}: {len(selection.rows)} of {wanted} rows", file=sys.stderr, flush=True)
        if selection.full:
            break
    return selection


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    for row in rows:
        part.append(row)
        if len(part) == CHUNK:
            yield part
            part = []
    if part:
        yield part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bridge", required=True, help="release, for example 0.6.2")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--overrides", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--judged", type=Path, help="choose from complete rows that were judged before; no overrides then")
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--fields", type=Path, help="keep all of these one-field rows, as changes of recorded rows")
    args = parser.parse_args()
    line = environments.line_of(args.bridge)
    if args.fields:
        keep_fields(args.out / "fields" / f"{line}.jsonl.gz", read(args.fields))
        return
    if args.judged:
        keep(args.out / "verdicts" / f"{line}.jsonl.gz", choose(read(args.judged), line, args.rows))
        return
    try:
        environments.find(args.bridge)
    except environments.EnvironmentMissing as error:
        sys.exit(str(error))
    work = []
    if args.rows:
        work.append(("verdicts", complete_rows(line, args.rows * 4, args.seed), args.rows))
    if args.overrides:
        rows = override_rows(line, load_recipes(args.bridge), args.overrides * 4, args.seed)
        work.append(("overrides", rows, args.overrides))
    for kind, candidates, wanted in work:
        keep(args.out / kind / f"{line}.jsonl.gz", record(args.bridge, candidates, wanted, args.jobs))


def choose(rows: Iterable[Row], line: str, wanted: int) -> Selection:
    """The same choice from complete rows of a release that were judged before; their checks are named anew."""
    selection = Selection(wanted)
    for row in rows:
        if row["release"] == line and "config" in row:
            selection.offer(named(row))
    return selection


def keep_fields(path: Path, rows: Iterable[Row]) -> None:
    """One-field rows, without the configuration: it is that of the recorded row they were made from, with one change."""
    named_rows = [named(row) for row in rows]
    kept = [row for row in named_rows if row["expect"] == "accepted" or classify.claimed(row["check"])]
    write(path, [{key: row[key] for key in ("id", "release", "base", "changed", "expect", "check")} for row in kept])
    accepted = sum(row["expect"] == "accepted" for row in kept)
    print(f"{path}: {len(kept)} rows, {accepted} accepted, {len(named_rows) - len(kept)} left out, {path.stat().st_size} bytes")


def keep(path: Path, selection: Selection) -> None:
    write(path, selection.rows)
    report(path, selection)


def report(path: Path, selection: Selection) -> None:
    print(f"{path}: {len(selection.rows)} rows, {selection.counts['accepted']} accepted, {path.stat().st_size} bytes")
    for check, count in selection.counts.most_common():
        print(f"  {count:5d} {check}")
    for check, count in selection.left_out.most_common():
        print(f"  left out {count:5d} {check}")


if __name__ == "__main__":
    main()
