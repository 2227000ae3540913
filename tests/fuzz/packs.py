"""Packed artifacts and lengths files, of the right form and of many wrong ones."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from random import Random
from typing import Any

from . import mutate

_PACK_NAMES = (
    *(
        "training_4096.idx.parquet",
        "validation_4096.idx.parquet",
        "training_4096.npy",
        "validation_4096.npy",
        "4096_metadata.jsonl",
    ),
    *("packed/gpt2_pad_seq_to_mult8/training_4096.idx.parquet", "packed/gpt2_pad_seq_to_multNone/training_2048.npy"),
    *("packed/x_pad_seq_to_mult8_sft_0123456789ab/training_64.idx.parquet", "packed/x_pad_seq_to_mult8/64_metadata.jsonl"),
    *("shard_0.parquet", "shard_1.pq", "training_999999999.idx.parquet", "training_0.npy", "a.parquet", "b.npy", "m.json"),
)


def folder(rng: Random) -> dict[str, bytes]:
    """One to four artifacts under their usual names."""
    found: dict[str, bytes] = {}
    for _ in range(rng.choice((1, 1, 2, 4))):
        name = rng.choice(_PACK_NAMES)
        data = metadata(rng) if name.endswith((".jsonl", ".json")) else npy(rng) if name.endswith(".npy") else parquet(rng)
        found[name] = mutate.bytes_of(rng, data) if rng.random() < 0.5 else data
    return found


def configuration(rng: Random, names: list[str]) -> bytes:
    """A configuration that points to some of the files."""
    release = rng.choice(("0.3", "0.5", "0.6", "0.7"))
    specs = "offline_packing_specs" if release in ("0.6", "0.7") else "packed_sequence_specs"
    lines = [
        f"# mbpack: bridge={release} recipe=llama3_8b_sft_config gpus=8",
        "dataset:",
        f"  {specs}:",
        f"    packed_sequence_size: {rng.choice((64, 2048, 4096, 0))}",
        f"    packed_train_data_path: {rng.choice((*names, '*.parquet', 'packed', '.', 'training_{}.npy'))}",
        f"    packed_metadata_path: {rng.choice((*names, 'none.json'))}",
    ]
    if rng.random() < 0.3:
        lines = [*lines[:2], "  dataset_root: .", *lines[2:4], f"    pad_seq_to_mult: {rng.choice((8, 1, 'null'))}"]
    return "\n".join(lines).encode() + b"\n"


_ENTRY = {
    "dataset_max_seqlen": 300,
    "max_samples_per_bin": 4,
    "packing_factor": 3.2,
    "packing_efficiency": 98.5,
    "pack_size": 4096,
    "min_packed_seqlen": 4095,
    "rows": 12,
}


def metadata(rng: Random) -> bytes:
    """A metadata file: a list of objects, or something like one."""
    tree: Any = [dict(_ENTRY) for _ in range(rng.choice((1, 1, 2, 0)))]
    if rng.random() < 0.8:
        tree = mutate.tree_of(rng, tree)
    return json.dumps(tree, default=str, skipkeys=True).encode()


def rows(rng: Random) -> list[dict[str, Any]]:
    """Packed rows, some with wrong starts, masks of another length, or nothing inside."""
    made = []
    for _ in range(rng.choice((0, 1, 2, 5, 20))):
        samples = [rng.choice((1, 2, 8, 63, 100)) for _ in range(rng.choice((0, 1, 2, 4)))]
        total = sum(samples)
        row: dict[str, Any] = {
            "input_ids": [rng.choice((2, 5, 500, 128009)) for _ in range(total)],
            "loss_mask": [rng.choice((0, 1)) for _ in range(total)],
            "seq_start_id": [sum(samples[:at]) for at in range(len(samples))],
        }
        if rng.random() < 0.3:
            name = rng.choice(sorted(row))
            row[name] = rng.choice((row[name][::-1], row[name][:1], row[name] * 2, [-1], [10**12], [], None, [None, 1]))
        made.append(row)
    return made


def parquet(rng: Random) -> bytes:
    """A parquet file of packed rows; columns of other types, missing ones, odd row groups."""
    made = rows(rng)
    key = (rng.randrange(3), rng.randrange(5), rng.randrange(3), rng.choice((1, 2, 500)))
    return _parquet(json.dumps(made), *key)


@lru_cache(maxsize=64)
def _parquet(text: str, mask: int, missing: int, version: int, group: int) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = json.loads(text)
    kinds = {"input_ids": pa.int64(), "loss_mask": (pa.int8(), pa.bool_(), pa.float32())[mask], "seq_start_id": pa.int32()}
    columns = {}
    for name, kind in kinds.items():
        values = [None if row[name] is None else [_fit(value, kind) for value in row[name]] for row in made]
        columns[name] = pa.array(values, (pa.list_, pa.large_list, pa.list_)[version](kind))
    if missing == 1:
        del columns["seq_start_id"]
    elif missing == 2:
        columns["input_ids"] = pa.array([str(row["input_ids"]) for row in made], pa.string())
    elif missing == 3:
        columns = {"length": pa.array([len(row["input_ids"] or ()) for row in made], pa.int64())}
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, row_group_size=group, compression=("snappy", "none", "zstd")[version])
    return buffer.getvalue()


def _fit(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    text = str(kind)
    if text == "bool":
        return bool(value)
    if text == "float":
        return float(value)
    limit = {"int8": 127, "int32": 2**31 - 1}.get(text, 2**62)
    return min(value, limit)


def npy(rng: Random) -> bytes:
    """An array of lengths, of other types and shapes, or the object array of old packs."""
    import numpy as np

    kind = rng.random()
    if kind < 0.4:
        array = np.array(rows(rng) or [{}], dtype=object)
    else:
        dtype = rng.choice(("<i8", "<i4", ">u2", "<f8", "<c16", "?", "S3", "<M8[s]"))
        shape: Any = rng.choice(((0,), (1,), (7,), (3, 4), (), (200,)))
        array = np.array([rng.choice((0, 1, 2)) for _ in range(int(np.prod(shape)))]).astype(dtype).reshape(shape)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


_HISTOGRAM = {
    "format": "mbpack-lengths",
    "version": 1,
    "counted": "stored",
    "lengths": [5, 64, 300, 4097],
    "counts": [7, 12, 3, 1],
}
_JSON_ROWS = (
    {"length": 120},
    {"input_ids": [1, 2, 3], "labels": [1, 2, 3]},
    {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    {"input": "a", "output": "b"},
    {"conversations": [{"from": "human", "value": "x"}]},
    12,
    [1, 2, 3],
)


def lengths(rng: Random) -> tuple[str, bytes]:
    """Name and content of a lengths file of any of the formats that `plan` reads."""
    kind = rng.randrange(6)
    if kind == 0:
        line = rng.choice(("\n", "\r\n", " \n", "\n\n"))
        numbers = [str(rng.choice((0, 1, 17, 300, 4096, 70_000, 10**9, 10**13, -1, 1.5))) for _ in range(rng.randint(0, 60))]
        name, data = "l.txt", line.join(numbers).encode()
    elif kind == 1:
        tree = mutate.tree_of(rng, histogram(rng)) if rng.random() < 0.7 else histogram(rng)
        name, data = "h.json", json.dumps(tree, default=str, skipkeys=True).encode()
    elif kind == 2:
        row = rng.choice(_JSON_ROWS)
        made = [mutate.tree_of(rng, row) if rng.random() < 0.2 else row for _ in range(rng.randint(0, 30))]
        name, data = "r.jsonl", "\n".join(json.dumps(one, default=str, skipkeys=True) for one in made).encode()
    elif kind == 3:
        name, data = "l.npy", npy(rng)
    elif kind == 4:
        name, data = "p.parquet", parquet(rng)
    else:
        name, data = rng.choice(("a.txt", "a.json", "a.jsonl", "a.npy", "a.parquet", "a")), rng.randbytes(rng.randint(0, 100))
    return name, (mutate.bytes_of(rng, data) if rng.random() < 0.45 else data)


def histogram(rng: Random) -> dict[str, Any]:
    """What `mbpack lengths --output` writes."""
    import numpy as np

    from mbpack.plan.histogram import Histogram

    places = sorted(rng.sample(range(1, rng.choice((50, 5000, 200_000))), rng.randint(1, 40)))
    counts = [rng.choice((1, 3, 9, 100, 10**13 if rng.random() < 0.01 else 2)) for _ in places]
    made = Histogram(np.array(places, dtype=np.int64), np.array(counts, dtype=np.int64))
    return dict(json.loads(made.to_json()))
