"""Saved configurations of one release, checked as another one: answers, never a rule that fails."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbpack.facts.releases import RELEASES
from tests.conftest import DATA, doctor

FILES = sorted((DATA / "verdicts").glob("*.jsonl.gz"))
NAMES = [release.name for release in RELEASES]


def first_of_each_check(path: Path) -> Iterator[dict[str, Any]]:
    """The first row of every check that fired first, and the first accepted one of every model class."""
    seen = set()
    with gzip.open(path, "rt") as lines:
        for row in map(json.loads, lines):
            kind = row["check"] or row["config"]["model"]["_target_"]
            if kind not in seen:
                seen.add(kind)
                yield row


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_rule_fails_on_another_release(path: Path) -> None:
    others = [name for name in NAMES if not path.name.startswith(name)]
    for number, row in enumerate(first_of_each_check(path)):
        name = others[number % len(others)]
        result = doctor(json.dumps(row["config"]), bridge=name, gpus=row["gpus"], launcher="script")
        assert not result.failed_rules, (row["id"], name)
