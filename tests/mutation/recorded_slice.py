"""The slice of the recorded verdicts that the default run compares, row by row and in this process.

``tests/conformance/test_recorded.py`` asks mbpack in processes of their own, which a mutant in memory does not reach. Not
part of the default run: the file is named to the mutation run only.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbpack.cli.main import run
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.report.json import file_data
from tests.conformance.compare import difference
from tests.conformance.one_field import recorded
from tests.conformance.rows import Row, text_of
from tests.conformance.test_recorded import FILES, SLICE, label

ROWS = [pytest.param(row, id=f"{label(path)}-{row['id']}") for path in FILES for row in recorded(path)[::SLICE]]


@pytest.mark.parametrize("row", ROWS)
def test_a_recorded_verdict(row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not row.get("overrides"):
        assert difference(row, file_data(judge(Request([parse(text_of(row))], environ={})))) is None
        return
    path = tmp_path / "run.yaml"
    path.write_text(text_of(row), encoding="utf-8")
    run(["doctor", "--format", "json", "--", str(path), *row["overrides"]])
    assert difference(row, json.loads(capsys.readouterr().out)["files"][0]) is None
