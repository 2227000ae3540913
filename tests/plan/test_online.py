"""Simulated modes: against known results, small hand-made cases, and their invariants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mbpack.plan import online
from mbpack.plan._optional import PlanError
from mbpack.plan.histogram import Histogram
from tests.plan.reference import first_fit

DATA = Path(__file__).parents[1] / "data" / "lengths"


def dataset(name: str) -> Histogram:
    return Histogram.of_lengths(np.loadtxt(DATA / f"{name}_20000_11.txt", dtype=int))


@pytest.mark.parametrize(("name", "ratio"), [("lognormal", 1.44), ("bimodal", 1.52), ("heavy", 2.09)])
def test_in_batch_waits_for_the_fullest_rank(name: str, ratio: float) -> None:
    made = [online.in_batch(dataset(name), 8192, mbs, 128, 8, 8) for mbs in (2, 4)]
    assert made[0].imbalance == made[1].imbalance  # whatever MBS is
    assert made[0].imbalance.value == pytest.approx(ratio, abs=0.04)
    assert 98.5 <= made[0].token_efficiency.value <= 99.9
    assert made[0].effective == pytest.approx(made[0].token_efficiency.value / made[0].imbalance.value)
    assert made[1].width_median <= made[1].width_p99 <= made[1].width_worst == 4 * 8192


def test_equal_rows_balance_perfectly() -> None:
    made = online.in_batch(Histogram.of_lengths([100] * 50), 4096, 2, 16, 4, multiple=8)
    assert made.imbalance.value == 1.0
    assert made.token_efficiency.value == pytest.approx(100 * 100 / 104)
    assert (made.width_median, made.width_worst) == (208, 208)


FILLS = {"lognormal": (47, 69, 81, 89, 94, 97), "bimodal": (63, 76, 87, 93, 96, 98), "heavy": (29, 52, 74, 83, 91, 95)}


@pytest.mark.parametrize("name", FILLS)
def test_energon_fill_grows_with_the_buffer(name: str) -> None:
    made = online.energon(dataset(name), 8192)
    assert [fill.buffer for fill in made.fills] == [8, 16, 32, 64, 128, 256]
    assert [fill.fill.value for fill in made.fills] == pytest.approx(FILLS[name], abs=1.5)
    assert made.limit > made.fills[-1].fill.value
    assert made.skipped_rows == 0
    assert made.samples_to_fatal is None


def test_energon_memory_is_the_visual_tokens() -> None:
    held = [online.energon(dataset("lognormal"), 8192, 1, (64,), 1000, patch).fills[0].buffer_bytes for patch in (14, 16)]
    assert [number / 1e9 for number in held] == pytest.approx([1.2, 1.6], abs=0.03)


def test_energon_skips_what_does_not_fit() -> None:
    made = online.energon(Histogram.of_lengths([10] * 90 + [101] * 10), 100, 1, (8,))
    assert (made.skipped_rows, made.skipped_tokens, made.skipped_share) == (10, 1010, 10.0)
    assert online.energon(Histogram.of_lengths([99, 50]), 100, 8, (8,)).skipped_rows == 1  # 99 rounds up to 104
    with pytest.raises(PlanError, match="no row fits"):
        online.energon(Histogram.of_lengths([500]), 100)


def test_many_skips_in_a_row_stop_the_loader() -> None:
    made = online.energon(Histogram.of_lengths([10] + [101] * 99), 100, 1, (8,))
    assert made.samples_to_fatal == pytest.approx((0.99**-100 - 1) / 0.01)


def test_blocks_are_packed_like_first_fit_decreasing() -> None:
    blocks = np.random.default_rng(2).integers(1, 101, (40, 30))
    packed = online._blockwise_first_fit_decreasing(blocks, 100)
    assert packed.tolist() == [len(first_fit(sorted(block, reverse=True), 100)) for block in blocks.tolist()]


def test_global_batch_keeps_the_stream_order_and_fills_the_ranks() -> None:
    assert online._next_fit([40, 50, 20, 90, 5], 100) == [[40, 50], [20], [90, 5]]
    packs = [[40, 50], [20], [90, 5]]
    online._spread(packs, 4)
    assert packs == [[40, 50], [20], [90], [5]]
    alone = [[1]]
    online._spread(alone, 2)
    assert alone == [[1]]  # nothing to split off


def test_global_batch_microbatches() -> None:
    made = online.global_batch(dataset("bimodal"), 8192, 128, 8, 8)
    assert 2 <= made.microbatches.value <= made.microbatches_max <= 4
    assert 1 <= made.imbalance.value < online.in_batch(dataset("bimodal"), 8192, 1, 128, 8, 8).imbalance.value
    assert 50 < made.fill.value < 100
    assert online.global_batch(Histogram.of_lengths([10, 101]), 100, 4, 2).overlong == 1


def test_dynamic_cp_groups_are_exact() -> None:
    rows = Histogram.of_lengths([100] * 6 + [101] * 2 + [400] + [401])
    made = online.dynamic_cp(rows, 100, 8, 4)
    assert made.groups.keys() == {1, 2, 4}
    assert [share for share, _ in made.groups.values()] == pytest.approx([60, 20, 10])
    assert made.overlong == 1
    assert made.microbatches.value >= 1
    assert made.imbalance.value >= 1


def test_dynamic_cp_schedules_everything() -> None:
    assert online._longest_first([100, 100, 100, 100], 100, 4, 1) == (1, 1.0)
    number, imbalance = online._longest_first([200, 200, 200], 100, 4, 1)
    assert number == 2
    assert imbalance == pytest.approx(2 / 1.5)


def test_a_pool_that_is_no_power_of_two() -> None:
    with pytest.raises(PlanError, match="power of two above 1, found 6"):
        online.dynamic_cp(Histogram.of_lengths([5]), 100, 8, 6)


def test_a_batch_that_does_not_divide() -> None:
    with pytest.raises(PlanError, match="not a multiple of MBS 4 x DP 8"):
        online.in_batch(Histogram.of_lengths([5]), 100, 4, 100, 8)
