"""Recorded configurations with what they stand on taken away: what is still found, and what is claimed without reason.

    python -m tests.conformance.unnamed recipes [--step N] [--release R]    recorded overrides without their recipe
    python -m tests.conformance.unnamed cases                               public cases without recipe, launcher or release

`recipes` asks of every N-th recorded override of 0.3 to 0.6: is it called rejected where its own recipe accepts (never), is a
rejection found that every candidate shares (its candidates are asked one by one, some of them), how many rules stay unchecked.
`cases` asks whether the findings that a case expects are still there: as certain, or with some of what is not known.

Exit code 1 when a share is below what the project promises (`FOUND`, `UNCHECKED`, no false rejection).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.inspect import collect
from tests.conformance.rows import DATA, corpora, read
from tests.conftest import load_cases

RELEASES = ("0.3", "0.4", "0.5", "0.6")
#: The share that must be found, rules of one file that may stay unchecked on average, and candidates that are asked one by one.
FOUND, UNCHECKED, ASKED = 0.9, 15.0, 8
#: A file that changes nothing.
NOTHING_WRITTEN = "logger: {log_interval: 10}\n"
#: What a case names and may go without.
TAKEN = ("recipe", "launcher", "bridge")


def main() -> int:
    """Measure; exit code 1 when a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recipes", "cases"))
    parser.add_argument("--step", type=int, default=1, help="every how many-th row")
    parser.add_argument("--release", choices=RELEASES, action="append", help="only this one")
    options = parser.parse_args()
    if options.what == "cases":
        kept = [case_share(name) >= FOUND for name in TAKEN]
    else:
        kept = [recipes(release, options.step) for release in options.release or RELEASES]
    return int(not all(kept))


def rows_of(release: str, step: int) -> list[dict[str, Any]]:
    """Recorded overrides of a release that need nothing but their file."""
    paths = [path for path in corpora("overrides") if path.name in (f"{release}.jsonl.gz", f"{release}-reference.jsonl.gz")]
    rows = [row for path in paths for row in read(path) if row.get("yaml") and not row.get("overrides")]
    return rows[::step]


def unnamed(row: dict[str, Any], recipe: str | None = None) -> Result:
    """A row judged without its recipe, or with another."""
    flags = Given(row["release"], recipe=recipe, gpus=row["gpus"], launcher=row["launcher"])
    return judge(Request([parse(row["yaml"])], flags))


def recipes(release: str, step: int) -> bool:
    """Print what becomes of the rows of a release; whether every promise is kept."""
    counts: Counter[str] = Counter()
    unchecked = 0
    for row in rows_of(release, step):
        result = unnamed(row)
        counts["rows"] += 1
        unchecked += len(result.not_checked)
        refused = row["expect"] == "rejected"
        if result.verdict == "rejected" and not refused:
            counts["false"] += 1
            print(f"  called rejected, accepted by {row['recipe']}: {row['id']}")
        if not refused:
            continue
        counts["rejected"] += 1
        counts["first error told"] += row["check"] in told(result)
        if is_shared(row, result):
            found = result.verdict == "rejected" or any(f.outcome.consequence == "rejected" for f in result.findings)
            counts["shared"] += 1
            counts["shared found"] += found
            if not found:
                print(f"  not found although shared: {row['id']}, {row['check']}")
    share = counts["shared found"] / max(1, counts["shared"])
    mean = unchecked / max(1, counts["rows"])
    print(
        f"{release}: {counts['rows']} rows, {counts['false']} falsely rejected; rejections that candidates share: "
        f"{counts['shared found']} of {counts['shared']} found ({share:.1%}); true first error told: "
        f"{counts['first error told']} of {counts['rejected']}; rules not checked per file: {mean:.1f}"
    )
    return not counts["false"] and share >= FOUND and mean < UNCHECKED


def told(result: Result) -> set[str]:
    """The rules with a finding, on some recipes or all."""
    few = result.candidates.few if result.candidates is not None else ()
    return {finding.rule.slug for finding in (*result.findings, *few)}


def is_shared(row: dict[str, Any], result: Result) -> bool:
    """Whether some of the candidates, asked one by one, all refuse the file."""
    if result.candidates is None:
        return True
    if row["check"] in told(unnamed({**row, "yaml": NOTHING_WRITTEN}, row["recipe"])):
        return False  # a fault that the recipe has by itself is not the file's
    names = result.candidates.names
    asked = random.Random(row["id"]).sample(names, min(ASKED, len(names)))
    return all(is_refused(row, name) for name in asked)


def is_refused(row: dict[str, Any], name: str) -> bool:
    """Whether a recipe refuses a row for something that it does not refuse by itself: too few GPUs for it are not the file's fault."""
    by_itself = refusals(unnamed({**row, "yaml": NOTHING_WRITTEN}, name))
    return bool(refusals(unnamed(row, name)) - by_itself)


def refusals(result: Result) -> set[tuple[str, str]]:
    """The certain refusals of a result, each with what it says."""
    certain = (finding for finding in result.findings if finding.holds_for is None)
    return {(finding.rule.slug, finding.message) for finding in certain if finding.outcome.consequence == "rejected"}


def cases() -> Iterator[dict[str, Any]]:
    """The public cases that one YAML input tells."""
    for case in (*load_cases(DATA / "field_cases.yaml"), *load_cases(DATA / "reports" / "second.yaml")):
        if isinstance(case.get("input"), str) and case.get("expect") and not case.get("needs"):
            yield case


def case_share(name: str) -> float:
    """The share of expected findings that are still there when one input is taken away; printed with those that are not."""
    there, lost = 0, []
    for case in cases():
        if case.get(name) is None:
            continue
        with_it, without = judge_case(case), judge_case({**case, name: None})
        for wanted in case["expect"]:
            if wanted["slug"] not in told(with_it) or wanted["severity"] == "info":
                continue
            found = told(without) | {finding.rule.slug for finding in without.by_release}
            there += wanted["slug"] in found
            if wanted["slug"] not in found:
                lost.append(f"{case['id']} {wanted['slug']}")
    share = there / max(1, there + len(lost))
    print(f"without {name}: {there} of {there + len(lost)} expected findings still there ({share:.1%}); lost: {', '.join(lost)}")
    return share


def judge_case(case: dict[str, Any]) -> Result:
    """The doctor's answer to a case."""
    text = case["input"].replace("FILES", str(Path(DATA) / "reports" / "files"))
    flags = Given(case.get("bridge"), recipe=case.get("recipe"), gpus=case.get("gpus"), launcher=case.get("launcher"))
    return judge(Request([parse(text)], flags, look=collect, all_releases=True))


if __name__ == "__main__":
    sys.exit(main())
