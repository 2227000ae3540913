"""Files that are not what they should be: an answer in words, never an exception."""

from __future__ import annotations

import json
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.facts.releases import R05, R06, R07
from mbpack.inspect import look_at
from mbpack.inspect.metadata import read_metadata
from mbpack.inspect.places import resolve
from tests.inspect.packs import row, write

ROWS = [row((3, 1), (4, 2))] * 3


def problem_of(path: str) -> str | None:
    packs = look_at(path, full=True)
    assert packs is not None
    return packs.shards[0].problem


def test_columns_and_rows_come_from_the_footer(tmp_path: Path) -> None:
    packs = look_at(write(tmp_path / "training_64.idx.parquet", ROWS, columns=("input_ids", "loss_mask")))
    assert packs is not None
    assert (packs.split, packs.rows, packs.statistics) == ("training", 3, None)
    assert packs.shards[0].columns == ("input_ids", "loss_mask")
    assert packs.shards[0].modified == os.path.getmtime(packs.path)


def test_truncated_and_empty_files(tmp_path: Path) -> None:
    whole = Path(write(tmp_path / "p.parquet", ROWS)).read_bytes()
    for size in (0, 4, 100, len(whole) - 1):
        (tmp_path / "t.parquet").write_bytes(whole[:size])
        assert problem_of(str(tmp_path / "t.parquet"))


def test_damaged_pages_end_the_scan_with_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    data = bytearray(Path(write(path, [row((200, 100), (100, 50))] * 200)).read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(bytes(data))
    assert problem_of(str(path))


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("input_ids", pa.string()),
        ("input_ids", pa.list_(pa.string())),
        ("seq_start_id", pa.int64()),
        ("loss_mask", pa.list_(pa.float32())),
    ],
)
def test_columns_of_another_type(tmp_path: Path, column: str, kind: pa.DataType) -> None:
    columns = {name: pa.array([[1]], pa.list_(pa.int64())) for name in ("input_ids", "loss_mask", "seq_start_id")}
    columns[column] = pa.array([None], kind)
    pq.write_table(pa.table(columns), str(tmp_path / "p.parquet"))
    assert column in (problem_of(str(tmp_path / "p.parquet")) or "")


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("p.parquet", "p.npy", "64_metadata.jsonl"):
        (folder / name).write_bytes(data)
    for name in ("p.parquet", "p.npy"):
        look_at(str(folder / name), full=True)
    read_metadata(str(folder / "64_metadata.jsonl"))


def test_npy_packs_that_would_run_code_are_a_problem_and_run_nothing(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    np.save(tmp_path / "training_64.npy", np.array([Bomb()] * 2, dtype=object), allow_pickle=True)
    packs = look_at(str(tmp_path / "training_64.npy"), full=True)
    assert packs is not None
    assert packs.statistics is None
    assert "it would run" in (packs.shards[0].problem or "")
    assert not (tmp_path / "exploded").exists()


def test_npy_rows_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "training_64.npy", np.array(ROWS, dtype=object), allow_pickle=True)
    packs = look_at(str(tmp_path / "training_64.npy"), full=True)
    assert packs is not None
    assert packs.statistics is not None
    assert packs.statistics.lengths == {3: 3, 4: 3}


@pytest.mark.parametrize("kind", ["<i4", ">i8", "u1", "<f4", "?"])
@pytest.mark.parametrize("protocol", [3, 5])
def test_npy_rows_may_hold_arrays_and_numbers_of_numpy(tmp_path: Path, kind: str, protocol: int) -> None:
    rows = np.array([{**row, "loss_mask": np.array(row["loss_mask"]).astype(kind)} for row in ROWS], dtype=object)
    for held in rows:
        held["seq_start_id"] = [np.int64(start) for start in held["seq_start_id"]]
    np.save(tmp_path / "head.npy", rows, allow_pickle=True)
    data = (tmp_path / "head.npy").read_bytes()
    head = data[: 10 + int.from_bytes(data[8:10], "little")]
    (tmp_path / "training_64.npy").write_bytes(head + pickle.dumps(rows, protocol=protocol))
    packs = look_at(str(tmp_path / "training_64.npy"), full=True)
    assert packs is not None
    assert packs.statistics is not None
    assert packs.statistics.lengths == {3: 3, 4: 3}
    assert packs.statistics.supervised == sum(sum(map(bool, held["loss_mask"])) for held in ROWS)


@pytest.mark.parametrize("content", [[1, 2], [{"input_ids": "text"}], [None]])
def test_npy_of_something_else(tmp_path: Path, content: list[object]) -> None:
    array = np.empty(len(content), dtype=object)
    array[:] = content
    np.save(tmp_path / "p.npy", array, allow_pickle=True)
    packs = look_at(str(tmp_path / "p.npy"), full=True)
    assert packs is not None
    assert packs.statistics is not None
    assert packs.statistics.broken_rows == len(content)


def test_npy_that_cannot_be_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array(ROWS, dtype=object), allow_pickle=True)
    data = (tmp_path / "p.npy").read_bytes()
    (tmp_path / "p.npy").write_bytes(data[: data.index(pickle.PROTO) + 4])
    packs = look_at(str(tmp_path / "p.npy"), full=True)
    assert packs is not None
    assert packs.shards[0].problem


@pytest.mark.parametrize(
    ("text", "entries", "problem"),
    [
        ("[]", 0, None),
        ('[{"pack_size": 4}, {}]', 2, None),
        ('{"pack_size": 4}', None, "holds an object, not a list"),
        ('{"a": 1}\n{"a": 2}', None, "not JSON"),
        ("[1]", None, "holds something other than objects"),
        ("", None, "not JSON"),
        ("[" * 100_000, None, "not JSON"),
        ("null", None, "holds a number or null"),
    ],
)
def test_metadata(tmp_path: Path, text: str, entries: int | None, problem: str | None) -> None:
    path = tmp_path / "64_metadata.jsonl"
    path.write_text(text)
    found = read_metadata(str(path))
    assert (None if found.entries is None else len(found.entries)) == entries
    assert (found.problem or "").startswith(problem or "")
    assert found.exists


def test_missing_metadata_and_odd_numbers(tmp_path: Path) -> None:
    assert not read_metadata(str(tmp_path / "none.jsonl")).exists
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps([{"pack_size": 4, "rows": 10}, {"pack_size": "x", "rows": 20}, {"pack_size": True}]))
    found = read_metadata(str(path))
    assert found.numbers("pack_size") == [4]
    assert found.rows == 30


class TestResolving:
    """A path is resolved as the release's own loader does it."""

    def test_files_directories_and_patterns(self, tmp_path: Path) -> None:
        for name in ("a.parquet", "b.pq", "c.txt", "d.idx.parquet"):
            (tmp_path / name).write_bytes(b"")
        base = str(tmp_path)

        def names(path: str, release: object = R06) -> list[str]:
            found = resolve(path, base, release)  # type: ignore[arg-type]
            assert found is not None
            return [os.path.basename(file) for file in found.files]

        assert names("") == ["a.parquet", "b.pq", "d.idx.parquet"]
        assert names("*.parquet") == ["a.parquet", "d.idx.parquet"]
        assert names("*") == ["a.parquet", "b.pq", "d.idx.parquet"]
        assert names("a.parquet") == ["a.parquet"]
        assert names("c.txt") == []
        assert names("missing.parquet") == []
        assert names("[ab].p*") == ["a.parquet", "b.pq"]
        assert names("[ab].parquet", R05) == []
        assert names("[ab].parquet", R07) == ["a.parquet"]

    def test_what_cannot_be_seen_is_no_answer(self, tmp_path: Path) -> None:
        assert resolve("nowhere/a.parquet", str(tmp_path), R06) is None
        assert resolve("nowhere/*.parquet", str(tmp_path), R06) is None
        assert resolve("s3://bucket/a.parquet", str(tmp_path), R06) is None

    def test_links(self, tmp_path: Path) -> None:
        (tmp_path / "a.parquet").write_bytes(b"")
        (tmp_path / "b.parquet").symlink_to(tmp_path / "a.parquet")
        (tmp_path / "c.parquet").symlink_to(tmp_path / "gone.parquet")
        found = resolve("*.parquet", str(tmp_path), R06)
        assert found is not None
        assert [os.path.basename(name) for name in (*found.files, *found.dangling, *found.duplicates)] == [
            "a.parquet",
            "b.parquet",
            "c.parquet",
            "b.parquet",
        ]


def test_npy_that_asks_for_more_memory_than_its_objects_need(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array(ROWS, dtype=object), allow_pickle=True)
    data = (tmp_path / "p.npy").read_bytes()
    remembered = pickle.NONE + pickle.LONG_BINPUT + (1 << 26).to_bytes(4, "little") + pickle.POP  # a table of 1 GB
    start = data.index(pickle.PROTO) + 2
    (tmp_path / "p.npy").write_bytes(data[:start] + remembered + data[start:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    packs = look_at(str(tmp_path / "p.npy"), full=True)
    assert packs is not None
    assert packs.shards[0].problem
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10
