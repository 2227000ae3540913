"""Public reports as minimal inputs: what the doctor must say about each, with the files that some of them speak of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.inspect import collect
from tests.conftest import load_cases

FOLDER = Path(__file__).parent.parent / "data" / "reports"
CASES = load_cases(FOLDER / "second.yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_report(case: dict[str, Any]) -> None:
    flags = Given(bridge=case["bridge"], recipe=case.get("recipe"), gpus=case["gpus"], launcher=case["launcher"])
    text = case["input"].replace("FILES", str(FOLDER / "files"))
    full = "--inspect" in case.get("args", ())
    result = judge(Request([parse(text)], flags, look=lambda run: collect(run, full=full)))
    said = {(finding.outcome.severity, finding.rule.slug) for finding in result.findings}
    assert {(wanted["severity"], wanted["slug"]) for wanted in case["expect"]} <= said
    if case.get("clean"):
        assert "error" not in {severity for severity, _ in said}
