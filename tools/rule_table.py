#!/usr/bin/env python3
"""How the rules are shown and tested: a table by consequence and release.

usage: python tools/rule_table.py [--rules]

Runs the examples of every rule's documentation and the YAML cases (tests/rules), and counts. A rule's consequence is
the gravest that these give it; a rule of which they only name what it lacks is counted as not judged by a file.
`--rules` prints a line per rule instead.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tests.conftest import load_cases
from tests.rules.examples import examine_case, examine_example

from mbpack.facts.releases import RELEASES
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.documentation import Page, page_of

CONSEQUENCES = ("rejected", "silent", "crash", "ignored", "waste", "note")
NOT_JUDGED = "not judged by a file"
FOLDERS = tuple(Path(__file__).resolve().parent.parent / "tests" / "rules" / name for name in ("cases", "on_disk"))


class Shown:
    """What examples and cases say of one rule."""

    def __init__(self, rule: Rule, page: Page) -> None:
        self.rule = rule
        self.bad, self.good = len(page.bad), len(page.good)
        self.cases = 0
        self.seen: set[str] = set()

    @property
    def consequence(self) -> str:
        """The gravest consequence that was seen."""
        return next((name for name in CONSEQUENCES if name in self.seen), NOT_JUDGED)

    def concerns(self) -> list[str]:
        """Names of the releases the rule concerns."""
        return [release.name for release in RELEASES if self.rule.applies(release)]


def collect() -> list[Shown]:
    """Run all examples and cases."""
    pages = {rule.slug: page_of(rule) for rule in ALL_RULES}
    shown = {rule.slug: Shown(rule, pages[rule.slug]) for rule in ALL_RULES}
    results = [examine_example(text) for page in pages.values() for text in page.bad]
    for file in sorted(path for folder in FOLDERS for path in folder.glob("*.yaml")):
        for case in load_cases(file):
            results.append(examine_case(case))
            for slug in {*(expected["slug"] for expected in case.get("expect", ())), *case.get("not_checked", ())}:
                shown[slug].cases += 1
    for result in results:
        for finding in result.findings:
            shown[finding.rule.slug].seen.add(finding.outcome.consequence)
    return list(shown.values())


def table(shown: Sequence[Shown]) -> Iterator[str]:
    """Rules by consequence and release, as Markdown."""
    heads = ["consequence", "rules", *(release.name for release in RELEASES), "YAML case", "Bad", "Good"]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    groups: dict[str, list[Shown]] = defaultdict(list)
    for entry in shown:
        groups[entry.consequence].append(entry)
    for name in (*CONSEQUENCES, NOT_JUDGED):
        yield _row(name, groups[name])
    yield _row("all", shown)
    cases, bad, good = (sum(getattr(entry, name) for entry in shown) for name in ("cases", "bad", "good"))
    yield ""
    yield f"{len(shown)} rules; {bad} Bad and {good} Good examples are executed, {cases} expectations of cases name a rule."


def _row(name: str, group: Sequence[Shown]) -> str:
    releases = Counter(release for entry in group for release in entry.concerns())
    shares = [sum(bool(getattr(entry, kind)) for entry in group) for kind in ("cases", "bad", "good")]
    numbers = [len(group), *(releases[release.name] for release in RELEASES), *shares]
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def lines(shown: Sequence[Shown]) -> Iterator[str]:
    """A line per rule: code, slug, consequences, releases, and how often it is shown."""
    for entry in sorted(shown, key=lambda entry: entry.rule.code):
        seen = "/".join(name for name in CONSEQUENCES if name in entry.seen) or NOT_JUDGED
        names = entry.concerns()
        span = names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}"
        counts = f"{entry.cases} cases, {entry.bad} Bad, {entry.good} Good"
        yield f"{entry.rule.code}  {entry.rule.slug:42} {span:12} {seen:24} {counts}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", action="store_true", help="a line per rule")
    asked = parser.parse_args(argv)
    shown = collect()
    for line in lines(shown) if asked.rules else table(shown):
        print(line)


if __name__ == "__main__":
    main()
