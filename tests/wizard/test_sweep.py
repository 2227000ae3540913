"""Cells of release x family x mode x workload x topology: each is written and clean, or refused with one reason."""

from __future__ import annotations

import pytest

from tests.wizard.cells import sweep


def check(cells: int, seed: int) -> None:
    tally = sweep(cells, seed)
    assert tally.cells == cells
    assert tally.dirty == []
    assert sum(tally.written.values()) >= cells // 3
    assert sum(tally.written.values()) + sum(tally.refused.values()) == cells
    for reason, _ in tally.examples.values():
        assert reason.strip()
        assert "\n" not in reason


def test_a_sample_of_cells() -> None:
    check(60, seed=3)


@pytest.mark.conformance
def test_five_thousand_cells() -> None:
    check(5000, seed=0)
