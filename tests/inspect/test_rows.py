"""Statistics of packed rows against a plain count, sample by sample."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.evidence import RowStatistics
from mbpack.inspect import look_at
from tests.inspect.packs import EOS, Row, row, write

SAMPLES = st.lists(
    st.integers(1, 12).flatmap(lambda length: st.tuples(st.just(length), st.integers(0, length))),
    min_size=1,
    max_size=6,
)
ROWS = st.lists(SAMPLES.map(lambda samples: row(*samples)), min_size=1, max_size=12)
ANY_ROW = st.fixed_dictionaries(
    {
        "input_ids": st.lists(st.integers(0, 9), max_size=8),
        "loss_mask": st.lists(st.integers(-1, 2), max_size=8),
        "seq_start_id": st.lists(st.integers(-2, 9), max_size=4),
    }
)


def scanned(path: str, eos: int | None = None) -> RowStatistics:
    packs = look_at(path, full=True, eos=eos)
    assert packs is not None
    assert packs.statistics is not None
    return packs.statistics


def is_sound(r: Row) -> bool:
    bounds = [*r["seq_start_id"], len(r["input_ids"])]
    lengths = [b - a - 1 for a, b in pairwise(bounds)]
    return (
        len(r["loss_mask"]) == len(r["input_ids"])
        and bool(r["seq_start_id"])
        and r["seq_start_id"][0] == 0
        and all(length >= 1 for length in lengths)
        and set(r["loss_mask"]) <= {0, 1}
    )


def lengths_of(r: Row) -> list[int]:
    bounds = [*r["seq_start_id"], len(r["input_ids"])]
    return [b - a - 1 for a, b in pairwise(bounds)]


def loss_of(r: Row) -> int:
    """What a batch holds of the mask: all but the last position of each sample."""
    bounds = [*r["seq_start_id"], len(r["input_ids"])]
    return sum(sum(r["loss_mask"][a : b - 1]) for a, b in pairwise(bounds))


def plainly(rows: list[Row]) -> dict[str, object]:
    sound = [r for r in rows if is_sound(r)]
    widths = [sum(lengths_of(r)) for r in sound]
    return {
        "rows": len(rows),
        "broken_rows": len(rows) - len(sound),
        "lengths": dict(Counter(length for r in sound for length in lengths_of(r))),
        "longest_row": max(widths, default=0),
        "shortest_row": min(widths, default=0),
        "most_samples": max((len(r["seq_start_id"]) for r in sound), default=0),
        "supervised": sum(loss_of(r) for r in sound),
        "rows_without_loss": sum(not loss_of(r) for r in sound),
    }


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(ANY_ROW, SAMPLES.map(lambda samples: row(*samples))), min_size=1, max_size=10), st.integers(1, 4))
def test_statistics_equal_a_plain_count(tmp_path_factory: pytest.TempPathFactory, rows: list[Row], group: int) -> None:
    path = write(tmp_path_factory.mktemp("rows") / "training_64.idx.parquet", rows, group=group)
    found = scanned(path)
    assert {name: getattr(found, name) for name in plainly(rows)} == plainly(rows)
    assert bool(found.broken) == bool(found.broken_rows)


@settings(max_examples=30, deadline=None)
@given(ROWS, st.integers(2, 9))
def test_misaligned_samples_are_counted(tmp_path_factory: pytest.TempPathFactory, rows: list[Row], multiple: int) -> None:
    found = scanned(write(tmp_path_factory.mktemp("rows") / "p.parquet", rows))
    lengths = [length for r in rows for length in lengths_of(r)]
    assert found.misaligned(multiple) == sum(length % multiple != 0 for length in lengths)
    assert found.misaligned(1) == 0


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    good = row((3, 1), (4, 2))
    bad = {**good, "seq_start_id": [0, 9]}
    found = scanned(write(tmp_path / "p.parquet", [good, good, bad], group=2))
    assert found.broken == ("p.parquet row 2: seq_start_id leaves a sample without a token (it must rise, below the row's end)",)


def test_masks_of_older_releases_are_booleans(tmp_path: Path) -> None:
    rows = [row((3, 1), (4, 2))]
    path = write(tmp_path / "p.parquet", rows, mask=pa.bool_())
    packs = look_at(path, full=True)
    assert packs is not None
    assert packs.shards[0].mask_type == "bool"
    assert packs.statistics is not None
    assert packs.statistics.supervised == loss_of(rows[0]) == 3


def test_a_mask_of_ones_is_all_of_the_tokens_and_no_more(tmp_path: Path) -> None:
    rows = [{**one, "loss_mask": [1] * len(one["loss_mask"])} for one in (row((3, 1), (4, 2)), row((1, 1)))]
    found = scanned(write(tmp_path / "p.parquet", rows))
    assert found.supervised == found.tokens
    assert found.density == 1.0


def test_null_rows_are_broken(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "input_ids": pa.array([[1, 2, 3], None], pa.list_(pa.int64())),
            "loss_mask": pa.array([[0, 1, 0], [0]], pa.list_(pa.int8())),
            "seq_start_id": pa.array([[0], [0]], pa.list_(pa.int32())),
        }
    )
    pq.write_table(table, str(tmp_path / "p.parquet"))
    found = scanned(str(tmp_path / "p.parquet"))
    assert (found.rows, found.broken_rows, found.broken) == (2, 1, ("p.parquet row 1: a column is null",))


@pytest.mark.parametrize(("padding", "answer", "expected"), [(0, 3, 0), (3, 0, 0), (3, 1, 0), (3, 2, 1), (3, 6, 1)])
def test_loss_on_padding_is_counted(tmp_path: Path, padding: int, answer: int, expected: int) -> None:
    path = write(tmp_path / "p.parquet", [row((8, answer), padding_loss=padding)])
    assert scanned(path).samples_with_pad_loss == expected
    assert scanned(path, eos=EOS).eos == EOS
    assert scanned(path, eos=999).samples_with_pad_loss == 0


def test_density_and_factor() -> None:
    found = RowStatistics(rows=2, lengths={4: 3, 8: 1}, supervised=10)
    assert (found.samples, found.tokens, found.density, found.packing_factor) == (4, 20, 0.5, 2.0)
    assert RowStatistics().density is None
