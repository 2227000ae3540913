"""mbpack against the real packages. Run with `pytest -m conformance` (see README.md in this folder).

Environment variables: MBPACK_REAL_DIR (where the releases are), MBPACK_CONFORMANCE_ROWS (rows per release and kind, default 60),
MBPACK_CONFORMANCE_SEED (default 1).
"""

from __future__ import annotations

import os
import sys

import pytest

from . import classify
from .compare import fresh, judged, tally
from .real import environments
from .rows import DATA, KINDS, Row, read

pytestmark = pytest.mark.conformance

ROWS = int(os.environ.get("MBPACK_CONFORMANCE_ROWS", "60"))
SEED = int(os.environ.get("MBPACK_CONFORMANCE_SEED", "1"))
MBPACK = (sys.executable, "-m", "mbpack")
# Without any release there is nothing to compare with: the first test then fails and says how to set one up.
RELEASES = environments.available() or list(environments.RELEASES)[-1:]


@pytest.fixture(scope="module", params=[(release, kind) for release in RELEASES for kind in KINDS], ids="-".join)
def fresh_rows(request: pytest.FixtureRequest) -> list[Row]:
    release, kind = request.param
    return judged(release, fresh(release, kind, ROWS if kind == "verdicts" else max(1, ROWS // 3), SEED))


def test_verdicts_first_errors_and_derived_values_agree(fresh_rows: list[Row]) -> None:
    result = tally(MBPACK, fresh_rows)
    wrong = [f"{d.row['id']}: {d.kind}: real {d.real}, mbpack {d.got}" for d in result.differences if d.kind != "unclaimed"]
    assert wrong == [], result.line("fresh rows")


def test_every_rejection_is_known(fresh_rows: list[Row]) -> None:
    unknown = [row["errors"][-1] for row in fresh_rows if row["expect"] == "rejected" and row["check"] is None]
    assert unknown == [], "add them to checks.tsv"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_rows_are_still_what_the_packages_say(kind: str, release: str) -> None:
    recorded = read(DATA / kind / f"{release}.jsonl.gz")[:: max(1, 2000 // ROWS)]
    again = judged(release, recorded)
    pairs = [(a["id"], a["expect"], a["check"], a["derived"]) for a in recorded]
    assert pairs == [(b["id"], b["expect"], b["check"], b["derived"]) for b in again]
    assert all(classify.claimed(row["check"]) for row in recorded if row["expect"] == "rejected")
