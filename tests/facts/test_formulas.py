"""The arithmetic of packing against its definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.facts import formulas
from mbpack.facts.buffers import FIRST_BUFFER, TOKEN_BYTES, VISUAL_BYTES, buffer_bytes, buffer_for

SIZES = st.integers(1, 16)


@given(tp=SIZES, cp=SIZES, sp=st.booleans(), eval_cp=st.none() | SIZES)
def test_the_pad_multiple_is_the_least_that_every_split_divides(tp: int, cp: int, sp: bool, eval_cp: int | None) -> None:
    layouts = {cp, eval_cp or cp}

    def fits(length: int) -> bool:
        pieces = all(length % (2 * size) == 0 for size in layouts if size > 1)
        ranks = all(length % (size * tp) == 0 for size in layouts) if sp and tp > 1 else True
        return pieces and ranks

    expected = next(length for length in range(1, 2 * 16 * 16 * 16 * 16) if fits(length))
    assert formulas.pad_multiple(tp, cp, sp, eval_cp).value == expected


@pytest.mark.parametrize(
    ("tp", "cp", "sp", "eval_cp", "because"),
    [
        (1, 1, False, None, "CP 1: no alignment needed"),
        (2, 1, False, None, "CP 1, no sequence parallel: no alignment needed"),
        (1, 1, True, None, "CP 1: no alignment needed"),
        (1, 4, False, None, "2*CP = 2*4"),
        (4, 1, True, None, "CP*TP = 1*4"),
        (4, 2, True, None, "lcm(2*CP = 4, CP*TP = 8)"),
        (4, 2, True, 2, "lcm(2*CP = 4, CP*TP = 8)"),
        (1, 2, False, 4, "lcm(2*CP = 4, 2*eval CP = 8)"),
    ],
)
def test_a_pad_multiple_shows_how_it_came_about(tp: int, cp: int, sp: bool, eval_cp: int | None, because: str) -> None:
    assert formulas.pad_multiple(tp, cp, sp, eval_cp).because == because


@given(tp=SIZES, cp=SIZES)
def test_the_step_of_qwen3_vl_pads_for_tp_whatever_sp_says(tp: int, cp: int) -> None:
    assert formulas.step_pad_multiple(tp, cp).value == (tp if cp == 1 else 2 * tp * cp)


@given(dp=SIZES, tp=SIZES, cp=SIZES, sp=st.booleans())
def test_dynamic_context_parallelism_takes_the_whole_pool(dp: int, tp: int, cp: int, sp: bool) -> None:
    pool = dp * cp
    split = cp * tp if sp and tp > 1 else 1
    assert formulas.dynamic_cp_multiple(dp, tp, cp, sp).value == math.lcm(2 * pool, split)
    assert formulas.documented_dynamic_multiple(dp, tp, cp, sp) % (2 * pool) == 0


def test_an_evaluation_with_its_own_context_parallel_size_counts_with_the_ranks_of_the_training() -> None:
    multiple = formulas.dynamic_cp_multiple(4, 1, 2, sp=False, eval_cp=3)
    assert (multiple.value, multiple.because) == (48, "lcm(2*DP*CP = 16, 2*DP*eval CP = 24)")


def test_the_documented_multiple_is_another_one_from_four_tensor_parallel_ranks_on() -> None:
    assert formulas.documented_dynamic_multiple(2, 4, 2, sp=True) == 16
    assert formulas.dynamic_cp_multiple(2, 4, 2, sp=True).value == 8
    assert formulas.documented_dynamic_multiple(2, 2, 2, sp=True) == formulas.dynamic_cp_multiple(2, 2, 2, sp=True).value == 8


def test_sequence_parallel_over_one_rank_is_no_cause_under_dynamic_context_parallelism() -> None:
    assert formulas.dynamic_cp_multiple(4, 1, 2, sp=True).because == "2*DP*CP = 2*4*2"


def test_products() -> None:
    assert formulas.unpacked_multiple(6, 4).value == 12
    assert formulas.model_parallel_size(2, 3, 5).value == 30
    assert formulas.token_slots(4096, 12).value == 49_152
    assert formulas.pack_capacity(4096, 3).value == 12_288
    assert formulas.product([2, 3, 4]) == 24
    assert formulas.product([]) == 1
    assert formulas.lcm(4, 6) == 12


@given(gpus=st.integers(1, 64), tp=st.integers(0, 4), pp=st.integers(1, 4), cp=st.integers(1, 4))
def test_gpus_divide_into_copies_or_are_refused(gpus: int, tp: int, pp: int, cp: int) -> None:
    size = tp * pp * cp
    if size and gpus % size == 0:
        assert formulas.data_parallel_size(gpus, tp, pp, cp).value * size == gpus
    else:
        with pytest.raises(ValueError, match=f"{gpus} GPUs"):
            formulas.data_parallel_size(gpus, tp, pp, cp)


@given(gbs=st.integers(1, 200), mbs=st.integers(0, 8), dp=st.integers(1, 8))
def test_a_global_batch_divides_into_microbatches_or_is_refused(gbs: int, mbs: int, dp: int) -> None:
    if mbs and gbs % (mbs * dp) == 0:
        assert formulas.num_microbatches(gbs, mbs, dp).value * mbs * dp == gbs
    else:
        near = "nearest: " + " or ".join(map(str, formulas.nearest_multiples(gbs, mbs * dp))) if mbs else "a positive batch"
        with pytest.raises(ValueError, match=near):
            formulas.num_microbatches(gbs, mbs, dp)


@pytest.mark.parametrize(
    ("number", "unit", "near"), [(10, 4, [8, 12]), (3, 4, [4]), (0, 4, [4]), (8, 4, [8, 12]), (1, 1, [1, 2]), (-9, 4, [4])]
)
def test_nearest_multiples_are_positive(number: int, unit: int, near: list[int]) -> None:
    assert formulas.nearest_multiples(number, unit) == near


@given(number=st.integers(0, 10_000), unit=st.integers(1, 300))
def test_rounding_up(number: int, unit: int) -> None:
    up = formulas.round_up(number, unit)
    assert up % unit == 0
    assert 0 <= up - number < unit


def test_alternatives_hold_the_same_tokens() -> None:
    assert formulas.equal_slot_alternatives(64 * 1024, [1024, 2048, 3000, 65_536, 131_072]) == [
        (1024, 64),
        (2048, 32),
        (65_536, 1),
    ]
    assert formulas.equal_slot_alternatives(64 * 1024, [1024, 2048, 65_536], unit=32) == [(1024, 64), (2048, 32)]
    assert formulas.equal_slot_alternatives(0, [1024]) == []


def test_bubbles() -> None:
    assert formulas.bubble_share(1, 8).value == 0
    assert formulas.bubble_share(4, 9).value == pytest.approx(3 / 12)
    assert formulas.bubble_share(4, 9, vpp=1) == formulas.bubble_share(4, 9)
    assert formulas.bubble_share(4, 9, vpp=2).value == pytest.approx(3 / 21)
    assert str(formulas.bubble_share(4, 9)).startswith("25% = ")


@given(tp=SIZES, cp=SIZES, sp=st.booleans())
def test_a_row_is_split_over_cp_and_with_sp_over_tp(tp: int, cp: int, sp: bool) -> None:
    ranks = cp * tp if sp else cp
    assert formulas.local_width_divisor(tp, cp, sp).value == ranks
    assert formulas.fp8_width_multiple(16, tp, cp, sp).value == 16 * ranks


def test_the_divisor_names_tp_only_where_it_splits() -> None:
    words = [formulas.local_width_divisor(tp, 2, sp).because for tp, sp in ((4, True), (4, False), (1, True))]
    assert words == ["CP 2 x TP 4", "CP 2", "CP 2"]


def test_powers_of_two() -> None:
    assert [n for n in range(-4, 70) if formulas.is_power_of_two(n)] == [1, 2, 4, 8, 16, 32, 64]


def test_a_derived_value_prints_its_derivation() -> None:
    assert str(formulas.Derived(4096, "2*CP")) == "4,096 = 2*CP"
    assert str(formulas.Derived(4096, "")) == "4,096"


@given(pack=st.integers(256, 200_000), mean=st.integers(1, 10_000))
def test_a_buffer_holds_ten_packs_of_samples(pack: int, mean: int) -> None:
    assert buffer_for(pack, mean).value == max(FIRST_BUFFER, math.ceil(10 * pack / mean))


def test_buffer_bytes_count_every_worker_and_rank() -> None:
    one = buffer_bytes(1, 1, 0, 14, 1, 1).value
    assert one == TOKEN_BYTES == 36
    assert [buffer_bytes(1, 0, 1, patch, 1, 1).value for patch in (14, 16)] == [18_800, 24_600]
    assert buffer_bytes(5, 100, 7, 16, 3, 2).value == 5 * (100 * 36 + 7 * VISUAL_BYTES[16]) * 3 * 2


@pytest.mark.parametrize(
    ("cp", "sizes"), [(1, [1]), (2, [2]), (3, [3]), (4, [2, 2]), (6, [2, 3]), (8, [2, 4]), (9, [9]), (16, [8, 2]), (24, [8, 3])]
)
def test_levels_of_context_parallelism(cp: int, sizes: list[int]) -> None:
    assert formulas.hierarchical_sizes(cp) == sizes
