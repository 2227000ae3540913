"""Every demonstration sees damage at the bad setting and none at the good one, in each release it claims.

Run with `pytest -m conformance tests/conformance/test_demonstrations.py` (see README.md in this folder).
"""

from __future__ import annotations

import pytest

from .demonstrations import run
from .engine import trees

RELEASES = trees.available() or ["0.6"]
CLAIMS = [(release, one) for release in RELEASES for one in run.declared() if release in one.releases]


@pytest.mark.conformance
@pytest.mark.parametrize(("release", "one"), CLAIMS, ids=lambda value: value if isinstance(value, str) else value.name)
def test_damage_at_the_bad_setting_and_none_at_the_good_one(release: str, one: run.Declared) -> None:
    found = run.outcomes(release)[one.name]
    assert "failed" not in found["bad"], found["bad"]["failed"]
    assert "failed" not in found["good"], found["good"]["failed"]
    assert found["bad"]["damage"], "the bad setting shows no damage"
    assert found["good"]["damage"] is None, f"the good setting shows damage: {found['good']['damage']}"
