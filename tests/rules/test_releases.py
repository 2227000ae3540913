"""The releases every rule is asked for, on record: a rule that gains or loses one shows in the diff.

python -m tests.rules.test_releases --write   accept today's releases (read the diff before it is committed)
"""

from __future__ import annotations

import sys
from pathlib import Path

from mbpack.rules.catalogue import ALL_RULES

RECORD = Path(__file__).parents[1] / "data" / "rule_releases.tsv"


def lines() -> list[str]:
    """A line per rule: code, slug, first and last release."""
    return sorted("\t".join((rule.code, rule.slug, *map(str, rule.releases))) for rule in ALL_RULES)


def test_the_releases_of_every_rule_are_those_on_record() -> None:
    held = RECORD.read_text(encoding="utf-8").splitlines()
    assert lines() == held, "python -m tests.rules.test_releases --write, and read the diff"


if __name__ == "__main__":
    if "--write" not in sys.argv[1:]:
        sys.exit(__doc__)
    RECORD.write_text("\n".join(lines()) + "\n", encoding="utf-8")
