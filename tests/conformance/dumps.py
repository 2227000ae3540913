"""What every shipped recipe looks like when its own release saves it, as a recorded corpus and against mbpack.

    python -m tests.conformance.dumps record [RELEASE ...]   call every recipe, save it, read and start what was saved
    python -m tests.conformance.dumps compare [RELEASE ...]  mbpack on the recorded files, every finding counted

The corpus is ``tests/data/dumps/<release>.jsonl.xz``, one saved recipe a line:

    id            name of the recipe
    yaml          what `to_yaml` writes
    gpus          the smallest world that the layout divides
    expect, check the verdict of `from_yaml` and the start-up on it, and the slug of the check that fired
    without_sets  the same for the file without its sets, which `to_yaml` writes and `from_yaml` refuses

xz keeps what one file adds to those before it: eleven megabytes of files are thirty kilobytes. Recipes whose public model is
not in the offline cache are left out, and so is a second name for a file that is there.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result

from . import classify
from .real import environments

Saved = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[1] / "data" / "dumps"


def path_of(release: str) -> Path:
    return FOLDER / f"{release}.jsonl.xz"


def saved(release: str) -> Iterator[Saved]:
    """The recorded files of a release."""
    with lzma.open(path_of(release), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def doctored(release: str, row: Saved) -> Result:
    """mbpack's answer to a saved file, started by a user's script in an environment without variables."""
    request = Request([parse(row["yaml"].encode(), row["id"])], Given(bridge=release, gpus=row["gpus"], launcher="script"))
    return judge(Request(request.documents, request.flags, environ={}))


def record(release: str) -> int:
    """Call every recipe of a release and keep what it saves."""
    arguments, env = environments.command(release, "dumps")
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=True)
    rows: dict[str, Saved] = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        if "yaml" not in answer:
            continue
        row = {"id": answer["id"], "yaml": answer["yaml"], "gpus": answer["gpus"], **_verdict(answer)}
        if "without_sets" in answer:
            row["without_sets"] = _verdict(answer["without_sets"])
        rows.setdefault(row["yaml"], row)
    FOLDER.mkdir(exist_ok=True)
    with lzma.open(path_of(release), "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as out:
        for row in rows.values():
            out.write(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n")
    return len(rows)


def _verdict(answer: Saved) -> Saved:
    if answer["accepted"]:
        return {"expect": "accepted"}
    return {"expect": "rejected", "check": classify.slug_of(answer), "stage": answer["stage"]}


def compare(release: str) -> None:
    """Print how often each finding comes, beside the verdict of the packages."""
    found: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    rows = list(saved(release))
    for row in rows:
        result = doctored(release, row)
        for finding in result.findings:
            if finding.outcome.severity == "info":
                continue
            said = f"{finding.outcome.severity} {finding.rule.code} {finding.outcome.consequence} at {finding.setting.key or '-'}"
            found[row["expect"], said] += 1
            examples.setdefault((row["expect"], said), f"{row['id']}: {finding.message}")
    print(f"{release}: {len(rows)} files")
    for (expect, said), number in found.most_common():
        print(f"  {number:4} {expect}: {said}  ({examples[expect, said]})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("releases", nargs="*")
    args = parser.parse_args()
    for release in args.releases or environments.RELEASES:
        if args.command == "record":
            print(f"{release}: {record(release)} files")
        else:
            compare(release)


if __name__ == "__main__":
    main()
