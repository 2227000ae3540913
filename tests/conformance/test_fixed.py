"""Fixed configurations start up: put before the real packages (`pytest -m conformance`), and the way there without them."""

from __future__ import annotations

import os
import sys

import pytest

from .fixed import mended, outcome, rejected
from .judge import Judge
from .real import environments
from .rows import KINDS, text_of

MBPACK = (sys.executable, "-m", "mbpack")
ROWS = int(os.environ.get("MBPACK_CONFORMANCE_ROWS", "60"))
RELEASES = environments.available() or list(environments.RELEASES)[-1:]


def test_rejected_rows_are_spread_and_distinct() -> None:
    rows = rejected("overrides", "0.6", 20)
    assert len({text_of(row) for row in rows}) == 20
    assert len({row["check"] for row in rows}) > 5
    assert {row["expect"] for row in rows} == {"rejected"}


def test_mended_rows_are_rows_again() -> None:
    rows = rejected("verdicts", "0.6", 12)
    after = mended(MBPACK, rows)
    assert 4 <= len(after) <= 12
    by_id = {row["id"]: row for row in rows}
    for row in after:
        assert row["config"] != by_id[row["id"]]["config"]
        assert row["config"]["model"]["_target_"] == by_id[row["id"]]["config"]["model"]["_target_"]


@pytest.mark.conformance
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", [*KINDS, "fields"])
def test_mended_configurations_start_up(kind: str, release: str) -> None:
    with Judge(release) as judge:
        found = outcome(MBPACK, judge, kind, ROWS if kind == "verdicts" else ROWS // 2)
    print(found.line())  # pytest -s shows it
    assert found.refused == []
    assert found.mended >= found.rejected / 3
