"""Failures people had in the field, and configurations that must stay clean."""

from __future__ import annotations

from typing import Any

import pytest

from mbpack.facts.releases import UnknownReleaseError, parse_version
from tests.conftest import DATA, doctor, load_cases

CASES = load_cases(DATA / "field_cases.yaml")
JUDGED = [case for case in CASES if "needs" not in case]


def _context(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in ("bridge", "recipe", "gpus", "launcher", "nodes") if case.get(name) is not None}


def check_case(case: dict[str, Any]) -> list[str]:
    """What is wrong with the doctor's answer to a case."""
    result = doctor(case["input"], **_context(case))
    found = [(finding.outcome.severity, finding.rule.slug) for finding in result.findings]
    errors = [slug for severity, slug in found if severity == "error" and slug not in case.get("may", ())]
    faults = [
        f"missing {want['severity']} {want['slug']}" for want in case["expect"] if (want["severity"], want["slug"]) not in found
    ]
    faults += [f"forbidden error {slug}" for slug in errors if slug in case.get("forbid", ())]
    if case.get("clean"):
        faults += [f"error {slug}" for slug in errors]
    faults += [f"rule {code} failed" for code in result.failed_rules]
    return faults


@pytest.mark.parametrize("case", JUDGED, ids=lambda case: case["id"])
def test_field_case(case: dict[str, Any]) -> None:
    assert check_case(case) == []


def test_releases_before_03_are_refused_with_a_pointer() -> None:
    old = [case for case in CASES if "bridge-0.2" in case.get("needs", ())]
    assert old
    for case in old:
        with pytest.raises(UnknownReleaseError, match=case["expect"][0]["slug"]):
            parse_version(case["bridge"])
