"""Compare mbpack with the real packages, on fresh rows or on recorded ones, and print what differs.

    python -m tests.conformance.compare --release 0.6 --rows 500 --seed 7           fresh rows, judged by the real packages
    python -m tests.conformance.compare --kind both --rows 4000 --overrides 1000 --pairs --seed 7     all releases, both kinds
    python -m tests.conformance.compare --corpus tests/data/verdicts/0.6.jsonl.gz   recorded rows; needs no real package
    ... --minimise                                                                  shrink one example of each class (fresh rows)
    ... --save rows.jsonl.gz                                                        keep the judged rows, for --corpus

Per row: the verdict (accepted, rejected), of the rightly rejected the slug of the one finding with `fires_first`, of the rightly
accepted the derived values. Differences are grouped into classes and printed with one example as YAML. A table of all figures
with the run time ends the report.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import classify
from .arguments import argument_rows
from .generator import complete_rows
from .judge import Judge, load_recipes
from .one_field import one_field_overrides, one_field_rows
from .overrides import override_rows
from .real import environments
from .rows import Row, read, text_of, write
from .table import Line, render

BATCH = 400
#: Variables that an interpreter may need; all others are not set for it.
PASSED_ON = ("PATH", "PYTHONPATH", "HOME", "LANG", "SYSTEMROOT", "TMPDIR", "VIRTUAL_ENV")
KEPT = ("expect", "check", "derived", "errors", "stage")


@dataclass(frozen=True)
class Difference:
    """One row on which mbpack and the real packages disagree."""

    kind: str  # missed, false, unknown, first, derived, unclaimed, broken
    row: Row
    real: str  # slug, or "accepted"
    got: str

    @property
    def group(self) -> tuple[str, str, str]:
        return self.kind, self.real, self.got


@dataclass
class Tally:
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    differences: list[Difference] = field(default_factory=list)

    def add(self, row: Row, answer: dict[str, Any]) -> None:
        """Count one row (with its `expect`, `check`, `derived`) and mbpack's answer for it."""
        self.counts["rows"] += 1
        self.counts[row["expect"]] += 1
        found = difference(row, answer)
        if row["expect"] == answer.get("verdict"):
            self.counts["agree"] += 1
            named = row["expect"] == "rejected" and classify.claimed(row["check"])
            self.counts["first_of"] += named
        if found:
            self.counts[found.kind] += 1
            self.differences.append(found)

    def line(self, label: str) -> str:
        c = self.counts
        share = 100 * c["agree"] / max(1, c["rows"])
        first = c["first_of"] - c["first"]
        return (
            f"{label}: {c['rows']} rows ({c['accepted']} accepted), agree {share:.2f}%, missed {c['missed']}, "
            f"false {c['false']}, unknown {c['unknown']}, first {first}/{c['first_of']}, derived wrong {c['derived']}, "
            f"rejected without a rule {c['unclaimed']}, broken {c['broken']}"
        )


def difference(row: Row, answer: dict[str, Any]) -> Difference | None:
    real = (row["check"] or "unclassified") if row["expect"] == "rejected" else "accepted"
    findings = answer.get("findings", [])
    first = [f["slug"] for f in findings if f.get("fires_first")]
    rejected = ",".join(f["slug"] for f in findings if f.get("consequence") == "rejected")
    verdict = answer.get("verdict", "no answer")
    if verdict == "no answer" or any(f["slug"].startswith("internal") for f in findings):
        return Difference("broken", row, real, answer.get("stderr") or "a rule raised")
    if verdict != row["expect"]:
        if row["expect"] == "rejected" and not classify.claimed(row["check"]):
            return Difference("unclaimed", row, real, verdict)
        if verdict == "unknown":
            open_ = ",".join(sorted({f"{n['code']}:{'+'.join(n['needs'])}" for n in answer.get("not_checked", [])}))
            return Difference("unknown", row, real, open_[:120])
        return Difference("missed" if row["expect"] == "rejected" else "false", row, real, rejected or verdict)
    if row["expect"] == "rejected":
        named = len(first) == 1 and classify.same(row["check"], first[0])
        if classify.claimed(row["check"]) and not named:
            return Difference("first", row, real, ",".join(first) or "none")
        return None
    got = answer.get("derived", {})
    wrong = sorted(k for k, v in row.get("derived", {}).items() if got.get(k) != v)
    return Difference("derived", row, real, ",".join(wrong)) if wrong else None


def doctor(mbpack: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """mbpack's answer for every row, in order; rows with KEY=VALUE pairs one call each, all others in batches."""
    answers: list[dict[str, Any]] = [{} for _ in rows]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{i:05d}.yaml") for i in range(len(rows))]
        for path, row in zip(paths, rows, strict=True):
            path.write_text(text_of(row), encoding="utf-8")
        plain = [i for i, row in enumerate(rows) if not row.get("overrides")]
        for i, answer in zip(plain, check_files(mbpack, [paths[i] for i in plain]), strict=True):
            answers[i] = answer
        for i, row in enumerate(rows):
            if row.get("overrides"):
                answers[i] = _call(mbpack, [str(paths[i])], row["overrides"])[0]
    return answers


def check_files(mbpack: Sequence[str], paths: Sequence[Path]) -> list[dict[str, Any]]:
    """mbpack's answer for every file, in order."""
    answers: list[dict[str, Any]] = []
    for start in range(0, len(paths), BATCH):
        answers += _call(mbpack, [str(path) for path in paths[start : start + BATCH]])
    return answers


def _call(mbpack: Sequence[str], paths: list[str], pairs: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One doctor run; a run without an answer is halved until the file that breaks it stands alone."""
    command = [*mbpack, "doctor", "--environment", "--format", "json", "--", *paths, *pairs]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    try:
        return list(json.loads(done.stdout)["files"])
    except (json.JSONDecodeError, KeyError):
        if len(paths) == 1:
            return [{"verdict": "no answer", "stderr": done.stderr.strip().rsplit("\n", 1)[-1][-200:]}]
        half = len(paths) // 2
        return [*_call(mbpack, paths[:half]), *_call(mbpack, paths[half:])]


def environment() -> dict[str, str]:
    """The environment of recorded start-ups, in which nothing is set that a validation looks at."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def judged(release: str, rows: list[Row], jobs: int = 1) -> list[Row]:
    """The rows with what the real packages say."""
    with Judge(release, jobs) as judge:
        return [row | {k: verdict[k] for k in KEPT} for row, verdict in zip(rows, judge.judge(rows), strict=True)]


def named(row: Row) -> Row:
    """A kept row with the check that its errors stand for today; recorded rows hold no errors and stay as they are."""
    return row | {"check": classify.slug_of(row)} if row["expect"] == "rejected" and row.get("errors") else row


def fresh(release: str, kind: str, count: int, seed: int, pairs: bool = False) -> list[Row]:
    if kind == "verdicts":
        return list(complete_rows(release, count, seed))
    if kind == "fields":
        return list(one_field_rows(release, count, seed))
    if kind == "override-fields":
        return list(one_field_overrides(release, load_recipes(release), count, seed, pairs))
    if kind == "arguments":
        return list(argument_rows(release, load_recipes(release), count, seed))
    return list(override_rows(release, load_recipes(release), count, seed, pairs))


def tally(mbpack: Sequence[str], rows: Sequence[Row]) -> Tally:
    result = Tally()
    for row, answer in zip(rows, doctor(mbpack, rows), strict=True):
        result.add(row, answer)
    return result


def show(result: Tally, limit: int, shrink: Any = None) -> None:
    groups: dict[tuple[str, str, str], list[Difference]] = collections.defaultdict(list)
    for found in result.differences:
        groups[found.group].append(found)
    for group, members in sorted(groups.items(), key=lambda item: -len(item[1]))[:limit]:
        kind, real, got = group
        print(f"\n--- {kind}: real {real}, mbpack {got}: {len(members)} rows, for example {members[0].row['id']}")
        example = min(members, key=lambda d: len(text_of(d.row)))
        row = shrink(example) if shrink else example.row
        for error in row.get("errors", [])[-1:]:
            print(f"    real: {error['type']} at {error['where']} ({error['caller']}): {error['message'][:160]!r}")
        if row.get("overrides"):
            print(f"    with {' '.join(map(shlex.quote, row['overrides']))}")
        print("    " + text_of(row).rstrip().replace("\n", "\n    "))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", action="append", help="release line; may be repeated (default: all that are set up)")
    parser.add_argument(
        "--kind", choices=("verdicts", "overrides", "both", "fields", "override-fields", "arguments"), default="verdicts"
    )
    parser.add_argument("--rows", type=int, default=200, help="rows per release and kind")
    parser.add_argument("--overrides", type=int, help="another number of rows for override files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", action="store_true", help="override rows may also have KEY=VALUE pairs")
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--mbpack", default=f"{sys.executable} -m mbpack")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", type=int, default=20, help="print at most this many classes")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--save", type=Path, help="write the judged rows to this file (.jsonl.gz)")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    mbpack, lines = shlex.split(args.mbpack), []
    kept: list[Row] = []
    for path in args.corpus:
        started = time.monotonic()
        result = tally(mbpack, [named(row) for row in read(path)])
        show(result, args.show)
        lines.append(Line.of(path.name, "recorded", result.counts, time.monotonic() - started))
    if not args.corpus:
        for release in args.release or environments.available():
            for kind in ("verdicts", "overrides") if args.kind == "both" else (args.kind,):
                started = time.monotonic()
                rows = _judged(args, release, kind)
                kept += rows
                if args.save:
                    write(args.save, kept)
                result = tally(mbpack, rows)
                print(result.line(f"{release} {kind} seed {args.seed}"), flush=True)
                _show_fresh(args, mbpack, release, result)
                lines.append(Line.of(release, kind, result.counts, time.monotonic() - started))
    print("\n" + render(lines), flush=True)
    sys.exit(1 if any(line.wrong for line in lines) else 0)


def _judged(args: argparse.Namespace, release: str, kind: str) -> list[Row]:
    count = args.overrides if kind == "overrides" and args.overrides is not None else args.rows
    try:
        return judged(release, fresh(release, kind, count, args.seed, args.pairs), args.jobs)
    except environments.EnvironmentMissing as error:
        sys.exit(str(error))


def _show_fresh(args: argparse.Namespace, mbpack: Sequence[str], release: str, result: Tally) -> None:
    if not args.minimise:
        show(result, args.show)
        return
    from .minimise import Shrinker

    with Shrinker(release, mbpack) as shrinker:
        show(result, args.show, shrinker.shrink)


if __name__ == "__main__":
    main()
