"""What `mbpack doctor --fix --unsafe-fixes` makes of rejected configurations, put before the real packages.

    python -m tests.conformance.fixed --rows 150 --overrides 60          all releases that are set up
    python -m tests.conformance.fixed --release 0.6 --rows 400

Takes recorded rejected rows (tests/data), spread evenly over the corpora and each text once. A configuration counts as mended when mbpack
finds nothing more that a start-up would refuse; all of those must be accepted by the real packages. The rest is left to the user,
with the reason in mbpack's report: a checkpoint, a path or a size that only its owner can name.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from .compare import BATCH, check_files, environment
from .judge import Judge
from .one_field import recorded
from .real import environments
from .rows import KINDS, Row, corpora, text_of


@dataclass
class Outcome:
    """Counts of one release and kind; ``refused`` are mended configurations that the real packages still refuse."""

    release: str
    kind: str
    rejected: int = 0
    mended: int = 0
    accepted: int = 0
    refused: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.release:>7}  {self.kind:<9}  {self.rejected:>8,}  {self.mended:>6,}  {self.accepted:>8,}  "
            f"{len(self.refused):>7,}  {self.seconds / 60:>4.1f}"
        )


HEAD = "release  kind       rejected  mended  accepted  refused   min"


def rejected(kind: str, release: str, count: int) -> list[Row]:
    """Recorded rejected rows of a release, each text once, spread over the corpora."""
    found: dict[str, Row] = {}
    for path in corpora(kind):
        if path.name.split(".jsonl")[0].removesuffix("-reference") == release:
            for row in recorded(path):
                if row["expect"] == "rejected":
                    found.setdefault(text_of(row), row)
    rows = list(found.values())
    step = max(1.0, len(rows) / max(1, count))
    return [rows[int(place * step)] for place in range(min(count, len(rows)))]


def mended(mbpack: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """The rows as they are after the fix, of those in which mbpack then sees nothing that a start-up refuses."""
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number:05d}.yaml") for number in range(len(rows))]
        for path, row in zip(paths, rows, strict=True):
            path.write_text(text_of(row), encoding="utf-8")
        for start in range(0, len(paths), BATCH):
            part = [str(path) for path in paths[start : start + BATCH]]
            command = [*mbpack, "doctor", "--fix", "--unsafe-fixes", "--environment", "--", *part]
            subprocess.run(command, capture_output=True, env=environment())
        for path, row, answer in zip(paths, rows, check_files(mbpack, paths), strict=True):
            if answer["verdict"] == "accepted":
                kept.append(_row_of(row, path.read_text(encoding="utf-8")))
    return kept


def _row_of(row: Row, text: str) -> Row:
    if "recipe" in row:
        return row | {"yaml": text}
    return row | {"config": yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))}


def outcome(mbpack: Sequence[str], judge: Judge, kind: str, count: int) -> Outcome:
    started = time.monotonic()
    rows = rejected(kind, judge.release, count)
    after = mended(mbpack, rows)
    found = Outcome(judge.release, kind, len(rows), len(after))
    for row, verdict in zip(after, judge.judge(after), strict=True):
        if verdict["accepted"]:
            found.accepted += 1
        else:
            found.refused.append(f"{row['id']} (was {row['check']}): {verdict['errors'][-1]['message']}")
    found.seconds = time.monotonic() - started
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", action="append")
    parser.add_argument("--rows", type=int, default=150, help="rejected complete configurations per release")
    parser.add_argument("--overrides", type=int, default=60, help="rejected override files per release")
    parser.add_argument("--fields", type=int, default=150, help="rejected configurations with one changed field per release")
    parser.add_argument("--mbpack", default=f"{sys.executable} -m mbpack")
    args = parser.parse_args()
    found: list[Outcome] = []
    try:
        for release in args.release or environments.available():
            with Judge(release) as judge:
                for kind, count in zip((*KINDS, "fields"), (args.rows, args.overrides, args.fields), strict=True):
                    found.append(outcome(shlex.split(args.mbpack), judge, kind, count))
                    print("\n".join(found[-1].refused), end="\n" if found[-1].refused else "", flush=True)
    except environments.EnvironmentMissing as error:
        sys.exit(str(error))
    total = Outcome("all", "")
    for one in found:
        for name in ("rejected", "mended", "accepted", "refused", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    print("\n".join([HEAD, *(one.line() for one in found), total.line()]))
    return int(bool(total.refused))


if __name__ == "__main__":
    sys.exit(main())
