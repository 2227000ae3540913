"""The histogram: exact, adds up, survives a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.plan._optional import PlanError
from mbpack.plan.histogram import Histogram

LENGTHS = st.lists(st.integers(0, 5000), max_size=60)


@settings(max_examples=40, deadline=None)
@given(st.lists(LENGTHS, max_size=5))
def test_merging_parts_counts_the_whole(parts: list[list[int]]) -> None:
    whole = [length for part in parts for length in part]
    merged = Histogram.merge(Histogram.of_lengths(part) for part in parts)
    assert merged.same(Histogram.of_lengths(whole))
    assert (merged.rows, merged.tokens) == (len(whole), sum(whole))


@settings(max_examples=40, deadline=None)
@given(LENGTHS)
def test_saved_and_read_back(lengths: list[int]) -> None:
    made = Histogram.of_lengths(lengths, "runtime")
    assert Histogram.of_json(json.loads(made.to_json())).same(made)


def test_a_length_beyond_the_dense_range_costs_no_memory() -> None:
    made = Histogram.of_lengths([1 << 36, 5, 5])
    assert (made.lengths.tolist(), made.counts.tolist()) == ([5, 1 << 36], [2, 1])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=200), st.floats(0, 100))
def test_percentile_is_numpys(lengths: list[int], share: float) -> None:
    assert Histogram.of_lengths(lengths).percentile(share) == pytest.approx(float(np.percentile(lengths, share)))


def test_figures() -> None:
    made = Histogram.of_counts([30, 10, 20, 10], [1, 2, 0, 1])
    assert (made.rows, made.tokens, made.longest, made.mean) == (4, 60, 30, 15.0)
    assert made.lengths.tolist() == [10, 30]
    empty = Histogram.empty()
    assert (empty.rows, empty.longest, empty.mean, empty.percentile(50)) == (0, 0, 0.0, 0)


def test_stored_and_runtime_lengths_do_not_mix() -> None:
    with pytest.raises(PlanError, match="stored and runtime"):
        Histogram.merge([Histogram.of_lengths([1]), Histogram.of_lengths([1], "runtime")])


@pytest.mark.parametrize(
    ("lengths", "words"),
    [([-1], "negative"), ([1.5], "whole numbers"), ([float("nan")], "whole numbers"), (["a"], "whole numbers")],
)
def test_what_is_no_length(lengths: list[object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Histogram.of_lengths(lengths)


def test_whole_floats_are_lengths() -> None:
    assert Histogram.of_lengths(np.array([3.0, 4.0])).tokens == 7


def test_saving_replaces_the_whole_file_or_nothing(tmp_path: Path) -> None:
    target = tmp_path / "lengths.json"
    Histogram.of_lengths([1, 2]).save(target)
    Histogram.of_lengths([3]).save(target)
    assert Histogram.of_json(json.loads(target.read_text())).tokens == 3
    with pytest.raises(OSError):  # noqa: PT011
        Histogram.of_lengths([1]).save(tmp_path / "missing" / "lengths.json")
    assert [path.name for path in tmp_path.iterdir()] == ["lengths.json"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "not a length histogram"),
        ({"version": 2}, "newer"),
        ({"counted": "both"}, "stored or runtime"),
        ({"rows": 7}, "damaged"),
        ({"lengths": [1]}, "same number of entries"),
        ({"lengths": ["x", "y"]}, "whole numbers"),
        ({"counts": None}, "whole numbers"),
        ({"counts": [1, -1]}, "negative"),
    ],
)
def test_damaged_histograms_are_refused(change: dict[str, object], words: str) -> None:
    data = json.loads(Histogram.of_lengths([4, 5]).to_json())
    with pytest.raises(PlanError, match=words):
        Histogram.of_json({**data, **change})
