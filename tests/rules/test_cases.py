"""Rule cases as YAML data: an input, the context, and the findings it must and must not give.

``arguments`` are KEY=VALUE arguments beside the input, ``launch`` is a launch command instead of one. ``first`` is the
slug that fires first; ``not_checked`` names what rules lack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbpack.report.json import finding_data
from tests.conftest import load_cases
from tests.rules.examples import examine_case, unasked

FILES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
CASES = [pytest.param(case, id=f"{file.stem}:{case['name']}") for file in FILES for case in load_cases(file)]


@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any]) -> None:
    result = examine_case(case)
    found = [finding_data(finding, finding is result.first) for finding in result.findings]
    assert not result.failed_rules
    assert result.run is None or unasked(result.run) == []
    for expected in case.get("expect", ()):
        matches = [data for data in found if all(_same(data[key], value) for key, value in expected.items())]
        assert matches, f"expected {expected}, found {[(d['slug'], d['severity'], d['consequence'], d['key']) for d in found]}"
    for slug in case.get("absent", ()):
        assert slug not in [data["slug"] for data in found]
    for slug, needs in case.get("not_checked", {}).items():
        assert (slug, tuple(needs)) in [(entry.rule.slug, tuple(entry.needs)) for entry in result.not_checked]
    if "verdict" in case:
        assert result.verdict == case["verdict"]
    if "first" in case:
        assert result.first is not None
        assert result.first.rule.slug == case["first"]


def _same(actual: Any, expected: Any) -> bool:
    return bool(actual == expected)
