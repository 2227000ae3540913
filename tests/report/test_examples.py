"""The examples: whole configurations whose findings are recorded beside them, in `findings.tsv`, in report order.

A rule that changes what it says about one of them changes that file with it.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mbpack.config.document import parse
from mbpack.engine.doctor import examine
from mbpack.report.json import file_data
from tests.conftest import DATA

EXAMPLES = sorted((DATA / "examples").glob("*.yaml"))
with open(DATA / "examples" / "findings.tsv", newline="", encoding="utf-8") as stream:
    RECORDED = list(csv.DictReader(stream, delimiter="\t"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_findings_are_those_recorded(path: Path) -> None:
    data = file_data(examine([parse(path.read_bytes(), path.name)], path=path.name))
    found = [(entry["code"], entry["slug"], str(entry["line"] or "-"), entry["severity"]) for entry in data["findings"]]
    recorded = [
        (entry["code"], entry["slug"], entry["line"], entry["severity"]) for entry in RECORDED if entry["file"] == path.name
    ]
    assert found == recorded


def test_the_record_speaks_of_examples_that_exist() -> None:
    assert {entry["file"] for entry in RECORDED} <= {path.name for path in EXAMPLES}
    assert {path.name for path in EXAMPLES} - {entry["file"] for entry in RECORDED} == {"clean.yaml"}
