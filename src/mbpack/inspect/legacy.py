"""Legacy ``.npy`` packs of 0.3: an array of Python objects."""

from __future__ import annotations

import os
from typing import Any

from mbpack.config.evidence import Shard
from mbpack.config.npy_packs import NpyError, read_rows, skip_header
from mbpack.facts.artifacts import COLUMNS
from mbpack.inspect.parquet import one_line
from mbpack.inspect.rows import Column, Scan


class NeedsNumpy(ImportError):
    """numpy is not installed; the message says how to get it."""


def read_shard(path: str) -> Shard:
    """What the header of an ``.npy`` file says: the number of rows. Nothing is unpickled.

    Raises:
        NeedsNumpy: numpy is not installed.
    """
    modified = None
    try:
        modified = os.stat(path).st_mtime
        with open(path, "rb") as file:
            shape = skip_header(file)
    except ImportError as error:
        raise NeedsNumpy("reading .npy packs needs numpy: pip install 'mbpack[plan]'") from error
    except (OSError, NpyError) as error:
        return Shard(path, modified=modified, problem=one_line(error))
    return Shard(path, rows=int(shape[0]) if len(shape) == 1 else 1, modified=modified)


def scan(path: str, found: Scan) -> str | None:
    """Go through the rows of a file, running nothing it holds. Returns why that failed, if it did."""
    try:
        rows = read_rows(path)
    except (OSError, ValueError) as error:
        return one_line(error)
    where = os.path.basename(path)
    for number, row in enumerate(rows):
        columns = [_column(row, name) for name in COLUMNS]
        if any(column is None for column in columns):
            found.broken_rows(1, f"{where} row {number}: not a mapping of {', '.join(COLUMNS)}")
        else:
            ids, mask, starts = columns
            found.add(ids, mask, starts, where, number)  # type: ignore[arg-type]
    return None


def _column(row: Any, name: str) -> Column | None:
    import numpy as np

    try:
        values = np.asarray(row[name]).astype(np.int64)
    except (TypeError, KeyError, ValueError, IndexError, OverflowError):
        return None
    return Column(values, np.array([len(values)], dtype=np.int64)) if values.ndim == 1 else None
