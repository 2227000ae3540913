"""mbpack on every shipped recipe as its own release saves it: a slice in the default run, all with `pytest -m conformance`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from . import dumps

RELEASES = ("0.3", "0.4", "0.5", "0.6")
SLICE = 9
JUSTIFIED = yaml.safe_load((dumps.FOLDER / "justified.yaml").read_text(encoding="utf-8"))


def verdict_of(row: dumps.Saved) -> str:
    """What the packages say of the rest of a file whose sets they refuse."""
    found: str = row.get("without_sets", row)["expect"]
    return found


def unjustified(row: dumps.Saved, result: Any) -> Iterator[str]:
    """Errors and warnings on a file that a start-up takes, unless they are on the list with a reason."""
    for finding in result.findings:
        severity = finding.outcome.severity
        if severity == "info" or any(
            entry["code"] == finding.rule.code and entry["severity"] == severity and row["id"].startswith(tuple(entry["recipes"]))
            for entry in JUSTIFIED
        ):
            continue
        yield f"{severity} {finding.rule.code} at {finding.setting.key}: {finding.message}"


def disagreements(release: str, step: int) -> list[str]:
    found = []
    for row in list(dumps.saved(release))[::step]:
        result = dumps.doctored(release, row)
        expected = verdict_of(row)
        if (result.verdict == "rejected") != (expected == "rejected"):
            found.append(f"{row['id']}: the packages say {expected}, mbpack {result.verdict}")
        if expected == "accepted":
            found += [f"{row['id']}: {said}" for said in unjustified(row, result)]
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_a_slice_of_the_saved_recipes(release: str) -> None:
    assert disagreements(release, SLICE) == []


@pytest.mark.conformance
@pytest.mark.parametrize("release", RELEASES)
def test_every_saved_recipe(release: str) -> None:
    assert disagreements(release, 1) == []
