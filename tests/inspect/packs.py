"""Small packs for the tests, written as upstream writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

EOS = 2
Row = dict[str, list[int]]


def row(*samples: tuple[int, int], padding_loss: int = 0) -> Row:
    """A row of samples: (tokens the model sees, tokens of the answer). The last ``padding_loss`` + 1 tokens are EOS."""
    made: Row = {"input_ids": [], "loss_mask": [], "seq_start_id": []}
    for length, answer in samples:
        made["seq_start_id"].append(len(made["input_ids"]))
        padding = padding_loss + 1
        made["input_ids"] += [10 + i % 500 for i in range(length + 1 - padding)] + [EOS] * padding
        made["loss_mask"] += [0] * (length - answer) + [1] * answer + [0]
    return made


def write(path: Path, rows: Sequence[Row], mask: Any = None, columns: Sequence[str] | None = None, group: int = 500) -> str:
    """Write rows to a parquet file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = bool if mask == pa.bool_() else int
    data: dict[str, Any] = {
        "input_ids": pa.array([r["input_ids"] for r in rows], pa.list_(pa.int64())),
        "loss_mask": pa.array([list(map(kind, r["loss_mask"])) for r in rows], pa.list_(mask or pa.int8())),
        "seq_start_id": pa.array([r["seq_start_id"] for r in rows], pa.list_(pa.int64())),
    }
    table = pa.table({name: data[name] for name in columns or data})
    pq.write_table(table, str(path), row_group_size=group)
    return str(path)


def metadata(path: Path, *entries: dict[str, Any]) -> str:
    """Write a metadata file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(entries)))
    return str(path)


def entry(pack_size: int, most: int, longest: int, factor: float = 2.0) -> dict[str, Any]:
    """One metadata entry."""
    return {
        "dataset_max_seqlen": longest,
        "max_samples_per_bin": most,
        "packing_factor": factor,
        "packing_efficiency": 99.0,
        "pack_size": pack_size,
        "min_packed_seqlen": pack_size - 1,
    }
