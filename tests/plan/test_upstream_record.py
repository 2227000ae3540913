"""Replays what the real packing code of 0.3 to 0.6 answered on random inputs (tests/conformance/plan_upstream.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.plan_upstream import ours

RECORD = Path(__file__).parents[1] / "data" / "lengths" / "upstream.jsonl.gz"


def cases() -> list[dict[str, Any]]:
    with gzip.open(RECORD, "rt") as stream:
        return [json.loads(line) for line in stream]


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6"])
def test_equal_to_the_recorded_answers(release: str) -> None:
    mine = [case for case in cases() if case["release"] == release]
    assert len(mine) >= 150
    for case in mine:
        if case["kind"] == "pack":
            dense = [0] * (case["pack_size"] + 1)
            for length, rows in case["histogram"]:
                dense[length] = rows
            case["histogram"] = dense
        assert ours(case) == case["expect"], case["id"]


def test_the_record_holds_every_way_to_fail() -> None:
    errors = {case["expect"].get("error") for case in cases()}
    assert errors >= {None, "IndexError", "KeyError", "TypeError"}
