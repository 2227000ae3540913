"""Row widths: rounding, alignment and lengths that look like typing mistakes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.facts.formulas import round_up
from mbpack.facts.widths import aligned_rounding, dynamic_width_aligned, fp8_block, near_round_width

SIZES = st.integers(1, 24)


@given(rounding=SIZES, pad_multiple=SIZES, needed=SIZES)
def test_dynamic_widths_are_aligned_exactly_when_said(rounding: int, pad_multiple: int, needed: int) -> None:
    rows = (round_up(samples * pad_multiple, rounding) for samples in range(1, rounding * needed + 1))
    assert all(width % needed == 0 for width in rows) is dynamic_width_aligned(rounding, pad_multiple, needed)


@given(needed=st.integers(1, 10_000))
def test_the_rounding_that_is_advised_fits(needed: int) -> None:
    assert dynamic_width_aligned(aligned_rounding(needed), 1, needed)
    assert aligned_rounding(needed) % 16 == 0


@pytest.mark.parametrize(
    ("width", "near"),
    [
        (8192, None),
        (8129, 8192),
        (4069, 4096),
        (4224, None),
        (200_000, None),
        (4300, 4352),
        (8890, 8832),
        (64, None),
        (100, None),
    ],
)
def test_widths_next_to_round_ones(width: int, near: int | None) -> None:
    assert near_round_width(width) == near


@given(width=st.integers(129, 2_000_000))
def test_a_suggested_width_is_round_and_near(width: int) -> None:
    near = near_round_width(width)
    assert near is None or (near % 128 == 0 and abs(near - width) <= max(64, width * 0.03))


@pytest.mark.parametrize(
    ("recipe", "block"), [("mxfp8", 32), ("delayed", 16), ("tensorwise", 16), ("blockwise", 128), (None, 16), ([], 16)]
)
def test_fp8_blocks(recipe: object, block: int) -> None:
    assert fp8_block(recipe) == block
