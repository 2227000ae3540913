"""Packing equals upstream's results, published results and the definition."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbpack.plan._optional import PlanError
from mbpack.plan.candidates import Setup, evaluate
from mbpack.plan.histogram import Histogram
from mbpack.plan.packing import Packs, Shuffler, first_fit_decreasing, lower_bound, shuffled_first_fit
from tests.plan.reference import first_fit, shortest_pack_first, shuffled, some_lengths

DATA = Path(__file__).parents[1] / "data" / "lengths"
EXPECTED = json.loads((DATA / "packing_expected.json").read_text())
PUBLISHED = json.loads((DATA / "histograms.json").read_text())


def histogram_of(lengths: list[int]) -> tuple[Any, Any]:
    made = Histogram.of_lengths(lengths, "runtime")
    return made.lengths, made.counts


def packs_of(packs: Packs) -> list[tuple[int, int]]:
    """(tokens, samples) of every pack, sorted."""
    rows = zip(packs.used.tolist(), packs.samples.tolist(), packs.times.tolist(), strict=True)
    return sorted((used, samples) for used, samples, times in rows for _ in range(times))


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: f"{case['file'][:-4]}-{case['pack_size']}")
def test_recorded_results_of_upstream(case: dict[str, Any]) -> None:
    rows = Histogram.of_lengths(np.loadtxt(DATA / case["file"], dtype=int), "runtime")
    setup = Setup(schema="prompt-completion", seed=case["seed"])
    packed = evaluate(rows, [case["pack_size"]], setup)[0].packed
    assert packed is not None
    assert (packed.packs, packed.metadata, packed.ffd_packs) == (case["packs"], case["metadata"], case["ffd_packs"])


@pytest.mark.parametrize("number", range(60))
def test_equal_to_the_definition(number: int) -> None:
    draw = random.Random(number)
    capacity = draw.choice((1, 2, 5, 16, 37, 100, 512, 2048))
    lengths = some_lengths(draw, capacity)
    seed = draw.randint(0, 2**32 - 1)
    distinct, counts = histogram_of(lengths)

    mine = shuffled_first_fit(distinct, counts, capacity, Shuffler(seed))
    assert packs_of(mine) == sorted(first_fit(shuffled(lengths, seed), capacity))

    best = first_fit_decreasing(distinct, counts, capacity)
    assert packs_of(best) == sorted(first_fit(sorted(lengths, reverse=True), capacity))

    bound = lower_bound(distinct, counts, capacity)
    assert max(1, -(-sum(lengths) // capacity)) <= bound <= min(best.count, mine.count)


def test_many_roomy_packs_at_once() -> None:
    """Lengths near the capacity leave many packs half open, which packing keeps in another structure as they grow."""
    lengths = np.random.default_rng(5).integers(1, 3001, 4000).tolist()
    distinct, counts = histogram_of(lengths)
    mine = shuffled_first_fit(distinct, counts, 3000, Shuffler(9))
    assert packs_of(mine) == sorted(first_fit(shuffled(lengths, 9), 3000))


def test_one_shuffle_serves_several_candidates() -> None:
    shuffler = Shuffler(1234)
    lengths = np.random.default_rng(1).integers(1, 200, 500).tolist()
    for capacity in (200, 300, 1000):
        distinct, counts = histogram_of(lengths)
        again = shuffled_first_fit(distinct, counts, capacity, shuffler)
        assert packs_of(again) == packs_of(shuffled_first_fit(distinct, counts, capacity, Shuffler(1234)))


def test_the_callers_random_state_stays() -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    shuffled_first_fit(*histogram_of([5, 6, 7]), 10, Shuffler(1))
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


def test_empty_samples_go_into_the_first_pack() -> None:
    lengths = [0, 0, 0, 6, 6, 6]
    for packs in (
        shuffled_first_fit(*histogram_of(lengths), 10, Shuffler(0)),
        first_fit_decreasing(*histogram_of(lengths), 10),
    ):
        assert packs_of(packs) == [(6, 1), (6, 1), (6, 4)]


def test_nothing_but_empty_samples() -> None:
    assert packs_of(shuffled_first_fit(*histogram_of([0, 0]), 10, Shuffler(0))) == [(0, 2)]
    assert packs_of(first_fit_decreasing(*histogram_of([0, 0]), 10)) == [(0, 2)]


def test_what_cannot_be_packed() -> None:
    with pytest.raises(PlanError, match="no samples"):
        first_fit_decreasing(*histogram_of([]), 10)
    with pytest.raises(PlanError, match="11 tokens does not fit a pack of 10"):
        shuffled_first_fit(*histogram_of([3, 11]), 10, Shuffler(0))


def fill(counts: list[int], packs: int, capacity: int) -> float:
    return round(100 * sum((place + 1) * rows for place, rows in enumerate(counts)) / (packs * capacity), 4)


class TestPublishedResults:
    """Krell et al., Efficient Sequence Packing: Wikipedia at 512 tokens, SQuAD at 384."""

    wikipedia = PUBLISHED["wikipedia_512"]
    squad = PUBLISHED["squad_384"]

    @staticmethod
    def arrays(counts: list[int]) -> tuple[Any, Any]:
        return np.arange(1, len(counts) + 1), np.array(counts)

    def test_without_packing(self) -> None:
        assert sum(self.wikipedia) == 16_279_552
        assert fill(self.wikipedia, sum(self.wikipedia), 512) == pytest.approx(49.97, abs=0.005)

    @pytest.mark.parametrize(("depth", "percent"), [(2, 80.52), (3, 89.44), (4, 93.94), (8, 98.90), (12, 99.604)])
    def test_shortest_pack_first(self, depth: int, percent: float) -> None:
        made = fill(self.wikipedia, shortest_pack_first(self.wikipedia, 512, depth), 512)
        assert made == pytest.approx(percent, abs=0.006)

    @pytest.mark.parametrize(("depth", "percent"), [(12, 99.8129), (None, 99.9494)])
    def test_longest_pack_first(self, depth: int | None, percent: float) -> None:
        packs = first_fit_decreasing(*self.arrays(self.wikipedia), 512, depth)
        assert fill(self.wikipedia, packs.count, 512) == percent
        assert depth is None or packs.max_samples == depth

    def test_squad(self) -> None:
        lengths, counts = self.arrays(self.squad)
        assert sum(self.squad) == 88_641
        assert fill(self.squad, first_fit_decreasing(lengths, counts, 384).count, 384) == 97.7386
        usual = shuffled_first_fit(lengths, counts, 384, Shuffler(1234)).count
        assert fill(self.squad, usual, 384) == pytest.approx(94.12, abs=0.005)
