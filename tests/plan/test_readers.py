"""Row lengths from every kind of file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbpack.plan import readers
from mbpack.plan._optional import MissingExtraError, PlanError
from mbpack.plan.histogram import Histogram
from mbpack.plan.readers import Options, read_all

LENGTHS = [12, 7, 7, 300]


def lengths_of(path: Path | str, **options: Any) -> list[int]:
    histogram, _ = read_all([str(path)], Options(**options))
    return [length for length, rows in zip(histogram.lengths, histogram.counts, strict=True) for _ in range(rows)]


def text(path: Path) -> Path:
    target = path / "lengths.txt"
    target.write_text("".join(f"{length}\n" for length in LENGTHS))
    return target


def text_without_end(path: Path) -> Path:
    target = path / "lengths"
    target.write_bytes(b"12\r\n\r\n 7\n7\n300")
    return target


def compressed(path: Path) -> Path:
    target = path / "lengths.txt.gz"
    target.write_bytes(gzip.compress(b"12\n7\n7\n300\n"))
    return target


def array(path: Path) -> Path:
    np.save(path / "lengths.npy", np.array(LENGTHS, dtype=np.uint16))
    return path / "lengths.npy"


def parquet(path: Path) -> Path:
    pq.write_table(pa.table({"text": ["a"] * 4, "num_tokens": LENGTHS}), path / "rows.parquet")
    return path / "rows.parquet"


def parquet_tokens(path: Path) -> Path:
    pq.write_table(pa.table({"input_ids": [[1] * length for length in LENGTHS]}), path / "rows.pq")
    return path / "rows.pq"


def rows(*objects: Any) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        (path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
        return path / "rows.jsonl"

    return write


def packs_parquet(path: Path) -> Path:
    data = {
        "input_ids": [[5] * 19, [5] * 307],
        "loss_mask": [[1] * 19, [1] * 307],
        "seq_start_id": [[0, 12], [0, 7]],
    }
    pq.write_table(pa.table(data), path / "training_512.idx.parquet")
    return path / "training_512.idx.parquet"


def packs_npy(path: Path) -> Path:
    packs = [
        {"input_ids": [5] * 19, "loss_mask": [True] * 19, "seq_start_id": [0, 12]},
        {"input_ids": np.full(307, 5), "loss_mask": [True] * 307, "seq_start_id": [0, 7]},
    ]
    np.save(path / "training_512.npy", np.array(packs, dtype=object), allow_pickle=True)
    return path / "training_512.npy"


def saved(path: Path) -> Path:
    Histogram.of_lengths(LENGTHS).save(path / "lengths.json")
    return path / "lengths.json"


def json_list(path: Path) -> Path:
    (path / "lengths.json").write_text(json.dumps(LENGTHS))
    return path / "lengths.json"


@pytest.mark.parametrize(
    "write",
    [
        text,
        text_without_end,
        compressed,
        array,
        parquet,
        parquet_tokens,
        packs_parquet,
        packs_npy,
        saved,
        json_list,
        rows(*({"num_tokens": length, "id": 1} for length in LENGTHS)),
        rows(*({"tokens": [1] * length} for length in LENGTHS)),
        rows(*LENGTHS),
        rows(*([1] * length for length in LENGTHS)),
    ],
)
def test_every_format_gives_the_same_lengths(write: Callable[[Path], Path], tmp_path: Path) -> None:
    assert lengths_of(write(tmp_path)) == sorted(LENGTHS)


def test_files_add_up(tmp_path: Path) -> None:
    both, readings = read_all([str(text(tmp_path)), str(array(tmp_path))], Options())
    assert (both.rows, both.tokens) == (8, 2 * sum(LENGTHS))
    assert [reading.histogram.rows for reading in readings] == [4, 4]


def test_bare_numbers_and_token_lists_add_up_as_stored_lengths(tmp_path: Path) -> None:
    numbers = tmp_path / "runtime.txt"
    numbers.write_text("11\n")
    both, _ = read_all([str(numbers), str(parquet_tokens(tmp_path))], Options(counted="runtime"))
    assert both.counted == "stored"
    assert both.counts[both.lengths.tolist().index(12)] == 2


def test_a_folder_of_packs(tmp_path: Path) -> None:
    folder = tmp_path / "words_pad_seq_to_mult8"
    folder.mkdir()
    packs_parquet(folder)
    (folder / "512_metadata.jsonl").write_text("[]")
    histogram, readings = read_all([str(folder)], Options())
    assert histogram.rows == 4
    assert "multiple of 8" in readings[0].notes[0]


def test_text_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_PIECE", 5)
    seen: list[tuple[int, int]] = []
    assert lengths_of(text(tmp_path), progress=lambda done, total: seen.append((done, total))) == sorted(LENGTHS)
    assert seen[-1] == (11, 11)


def test_a_named_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": [3, 4]}), tmp_path / "t.parquet")
    assert lengths_of(tmp_path / "t.parquet", column="b") == [3, 4]
    assert lengths_of(rows({"a": {}, "b": 9})(tmp_path), column="b") == [9]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"1\n2\nthree\n", "a.txt:3: 'three' is not a whole number"),
        ("a.txt", b"1\n-2\n", "a.txt:2: -2 is no plausible row length"),
        ("a.txt", b"99999999999999999999\n", "a.txt:1: "),
        ("a.txt", b"\xff\xfe\x00", "a.txt:1: "),
        ("a.npy", b"", "a.npy: "),
        ("a.npy", b"\x93NUMPY garbage", "a.npy: "),
        ("a.parquet", b"PAR1", "a.parquet: not a readable parquet file"),
        ("a.jsonl", b'{"length": 1}\n{"length"\n', "a.jsonl:2: not JSON"),
        ("a.jsonl", b'{"length": 1}\n{"size": 1}\n', "a.jsonl:2: no field 'length'"),
        ("a.jsonl", b'{"length": 1}\n{"length": -1}\n', "a.jsonl:2: expected token counts"),
        ("a.jsonl", b'{"length": 1}\n7\n', "a.jsonl:2: no field 'length'"),
        ("a.jsonl", b'{"x": 1, "y": 2}\n', "a.jsonl: cannot tell where the length is (fields: x, y)"),
        ("a.jsonl", b'{"prompt": "a", "completion": "b"}\n', "a.jsonl: rows are prompt and completion: give --tokenizer"),
        ("a.jsonl", b'{"messages": []}\n', "a.jsonl: rows are chats: give --tokenizer"),
        ("a.json", b'{"format": "mbpack-lengths"}', "a.json: histogram version None"),
        ("a.json", b'"text"', "a.json: JSON that is neither"),
        ("missing.txt", None, "missing.txt: no such file"),
    ],
)
def test_bad_input_is_one_line_with_its_place(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PlanError) as caught:
        lengths_of(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ({"a": [1], "b": [2]}, None, "cannot tell which column holds the lengths (columns: a, b)"),
        ({"a": ["x"]}, None, "cannot tell which column"),
        ({"a": [1]}, "b", "no column 'b'; it has a"),
        ({"a": ["x"]}, "a", "needs whole numbers or token lists"),
        ({"a": [1, None]}, "a", "empty cells"),
        ({"input_ids": [[1]], "loss_mask": [[1]], "seq_start_id": [[]]}, None, "without samples"),
    ],
)
def test_parquet_that_does_not_say_where(table: dict[str, Any], column: str | None, words: str, tmp_path: Path) -> None:
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    with pytest.raises(PlanError) as caught:
        lengths_of(tmp_path / "t.parquet", column=column)
    assert words in str(caught.value)


@pytest.mark.parametrize("values", [np.zeros((2, 2), dtype=int), np.array(["a"]), np.array([True])])
def test_arrays_that_are_no_lengths(values: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(PlanError, match="lengths"):
        lengths_of(tmp_path / "a.npy")


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("trapped"),))


def test_a_pickle_that_runs_code_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(PlanError, match="run code"):
        lengths_of(tmp_path / "a.npy")
    assert not (tmp_path / "trapped").exists()


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = parquet(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pyarrow, which is not installed: pip install 'mbpack\[parquet\]'"):
        lengths_of(target)


@pytest.mark.parametrize("last", [{"num_tokens": 3}, {"num_tokens": "3"}, {"num_tokens": -3}, {}])
def test_a_large_file_of_counts_takes_the_fast_way_to_the_same_result(
    last: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbpack.plan.jsonl._LARGE", 0)
    path = rows(*({"num_tokens": length, "text": "x"} for length in LENGTHS), last)(tmp_path)
    if last == {"num_tokens": 3}:
        assert lengths_of(path) == sorted([*LENGTHS, 3])
    else:
        with pytest.raises(PlanError, match=r"rows\.jsonl:5: "):
            lengths_of(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt.gz", b"\x1f\x8b\x08\x00broken"), ("a.npy", b"\x93NUMPY\x01\x00\x01\x00{"), ("a.parquet", b"PAR1" * 8)],
)
def test_damaged_files_are_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PlanError) as caught:
        lengths_of(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path}/{name}: ")
    assert "\n" not in str(caught.value)
