"""Candidates, the recommendation, and what the doctor asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbpack.facts.releases import R05, R06, parse_version
from mbpack.plan import api
from mbpack.plan._optional import PlanError
from mbpack.plan.candidates import Candidate, Setup, choose_batch, evaluate
from mbpack.plan.histogram import Histogram
from mbpack.plan.recommend import percent, recommend

DATA = Path(__file__).parents[1] / "data" / "lengths"
BIMODAL = Histogram.of_lengths(np.loadtxt(DATA / "bimodal_2000_11.txt", dtype=int))
PACKS = (1024, 2048, 4096, 8192, 16384)


def plan(packs: tuple[int, ...] = PACKS, rows: Histogram = BIMODAL, bridge: str = "0.6", **values: Any) -> list[Candidate]:
    return evaluate(rows, packs, Setup(version=parse_version(bridge), **values))


def slugs(candidate: Candidate) -> list[tuple[str | None, str]]:
    return [(notice.slug, notice.severity) for notice in candidate.warnings]


def test_shares_add_up() -> None:
    for one in plan(tp=4, cp=2, sp=True):
        packed = one.packed
        assert packed is not None
        assert packed.fill + packed.padding == pytest.approx(100)
        assert packed.real_fill + packed.alignment == pytest.approx(packed.fill)
        assert round(packed.fill, 2) == packed.metadata["packing_efficiency"]
        assert round(packed.samples_mean, 2) == packed.metadata["packing_factor"]
        assert packed.lower_bound <= packed.ffd_packs <= packed.packs
        assert packed.boundary_width == packed.samples_max + 2
        assert packed.packs_range == (packed.packs, packed.packs)
        assert one.multiple.value == 8
        assert 0 < packed.attention_share < 100
        assert packed.dynamic_width <= one.pack_size
        assert packed.steps_num_epochs is not None
        assert packed.steps_num_epochs - packed.steps_per_epoch in (0, 1)


def test_several_processes_find_the_same() -> None:
    seen: list[int] = []
    setup = Setup(cp=2, token_slots=65536)
    parallel = evaluate(BIMODAL, (4096, 2048), setup, seen.append, jobs=2)
    assert parallel == evaluate(BIMODAL, (4096, 2048), setup)
    assert sorted(seen) == [2048, 4096]


def test_equal_token_slots() -> None:
    batches = [one.batch for one in plan(token_slots=65536, dp=4)]
    assert [batch.gbs for batch in batches] == [64, 32, 16, 8, 4]
    assert {batch.token_slots for batch in batches} == {65536}
    assert [batch.microbatches for batch in batches] == [16, 8, 4, 2, 1]


@pytest.mark.parametrize(
    ("pack", "values", "gbs", "words"),
    [
        (8192, {"token_slots": 65536, "dp": 3}, 9, "must be a multiple of DP 3"),
        (8192, {"token_slots": 8192, "dp": 8}, 8, "65,536 slots"),
        (3000, {"token_slots": 65536}, 22, "65,536 is no multiple of 3,000"),
        (4096, {"gbs": 10, "dp": 4}, 10, "not a multiple of DP 4: 8 or 12"),
        (4096, {"gbs": 12, "dp": 4}, 12, ""),
    ],
)
def test_a_batch_that_must_give(pack: int, values: dict[str, int], gbs: int, words: str) -> None:
    batch = choose_batch(pack, Setup(**values), values.get("token_slots"))  # type: ignore[arg-type]
    assert batch.gbs == gbs
    assert words in batch.note
    assert bool(batch.note) == bool(words)


def test_an_unseeded_release_shows_the_spread() -> None:
    packed = plan((2048,), bridge="0.5", schema="prompt-completion")[0].packed
    assert packed is not None
    low, high = packed.packs_range
    assert low <= packed.packs <= high
    assert packed.steps_num_epochs is None  # train.num_epochs starts with 0.6


def test_messages_name_the_rule() -> None:
    assert slugs(plan((2048,))[0]) == [("data/chat-overlong-index-error", "error")]  # dropped: multiple 1
    assert slugs(plan((2048,), cp=2)[0]) == [("data/chat-overlong-index-error", "warning")]  # truncated: multiple 4
    assert slugs(plan((2048,), schema="prompt-completion")[0]) == [(None, "warning")]
    assert slugs(plan((8190,), cp=2)[0]) == [("align/pack-size-multiple", "error")]
    assert slugs(plan((8192,), gbs=1000)[0]) == [("gbs/not-enough-rows", "error")]
    assert slugs(plan((8192,), gbs=10, dp=4)[0]) == [("gbs/divisible", "error")]
    assert slugs(plan((16384,), rows=Histogram.of_lengths([0, 5]))[0]) == [(None, "warning")]


def test_a_crash_leaves_the_numbers_of_the_other_rows() -> None:
    one = plan((2048,), bridge="0.5")[0]
    assert one.crash is not None
    assert one.packed is not None
    assert not one.usable
    assert one.kept_share < 80
    assert plan((2048,), bridge="0.5", cp=2)[0].packed is None


def test_the_shortest_pack_that_keeps_the_data() -> None:
    advice = recommend(plan(cp=2, token_slots=65536, dp=2))
    assert advice.pack_size == 8192
    assert "smallest activation memory" in advice.reasons[0]
    assert "4096 keeps" in advice.reasons[0]


def test_when_no_candidate_keeps_the_data_the_one_that_keeps_most() -> None:
    advice = recommend(plan((512, 1024)))
    assert advice.pack_size == 1024
    assert "try longer packs" in advice.reasons[0]


def test_when_nothing_runs() -> None:
    assert recommend(plan(bridge="0.5", cp=2)).pack_size is None
    assert recommend(plan((8192,), gbs=5000)).pack_size is None


@pytest.mark.parametrize(
    ("share", "shown"), [(100, "100%"), (99.99999, "99.99%"), (99.95, "99.95%"), (99.92, "99.9%"), (99.14, "99.1%"), (0, "0.0%")]
)
def test_a_share_is_never_rounded_up_to_all(share: float, shown: str) -> None:
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("packs", "values", "words"),
    [
        ((0,), {}, "pack length must be at least 1"),
        ((), {}, "no pack length"),
        ((8,), {"tp": 0}, "TP must be at least 1"),
        ((8,), {"token_slots": 8, "gbs": 1}, "not both"),
        ((8,), {"seed": -1}, "seed"),
        ((8,), {"max_single": 0}, "longest single row"),
    ],
)
def test_settings_no_run_could_have(packs: tuple[int, ...], values: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        plan(packs, **values)


def test_no_rows() -> None:
    with pytest.raises(PlanError, match="no rows"):
        plan(rows=Histogram.empty())


class TestSummary:
    """What `doctor --lengths` asks."""

    def test_equals_the_plan(self) -> None:
        made = api.summary(BIMODAL, 4096, pad_multiple=8)
        one = plan((4096,), multiple=8)[0]
        assert one.packed is not None
        assert (made.packs, made.max_samples_per_bin) == (one.packed.packs, one.packed.samples_max)
        assert (made.truncated, made.dropped) == (one.truncated, one.dropped)
        assert made.exact
        assert made.steps_per_epoch(16) == one.packed.packs // 16
        assert made.steps_per_epoch(16, num_epochs=True) == -(-one.packed.packs // 16)

    def test_a_row_cap_below_the_pack_and_above_it(self) -> None:
        assert api.summary(BIMODAL, 4096, row_cap=1024).dropped.rows > api.summary(BIMODAL, 4096).dropped.rows
        above = api.summary(BIMODAL, 4096, row_cap=8192)
        assert above.crash is not None
        assert (above.crash.slug, above.packs, above.steps_per_epoch(8)) == ("seq/pack-size-equals-seq", None, None)

    def test_releases_differ(self) -> None:
        assert api.summary(BIMODAL, 4096, release=R06).crash is None
        old = api.summary(BIMODAL, 4096, release=R05)
        assert old.crash is not None
        assert not old.exact

    def test_an_impossible_size(self) -> None:
        for sizes in ((0,), (8, 0), (8, 1, R06, "chat", 1, 0)):
            with pytest.raises(PlanError, match="at least 1"):
                api.summary(BIMODAL, *sizes)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("pack", "seed"), [(8192, -1), (8192, 1 << 32), (1 << 22, 1)])
    def test_what_cannot_be_replayed_has_no_packs(self, pack: int, seed: int) -> None:
        made = api.summary(BIMODAL, pack, seed=seed)
        assert made.packs is None
        assert made.samples == BIMODAL.rows
