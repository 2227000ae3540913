"""Parquet packs: footers, and the rows streamed in batches. Needs pyarrow (extra ``mbpack[parquet]``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from mbpack.config.evidence import Shard
from mbpack.facts.artifacts import COLUMNS
from mbpack.inspect.rows import Column, Scan

#: Bytes of decoded values a batch may have, about.
BATCH_BYTES = 32 << 20


class NeedsPyarrow(ImportError):
    """pyarrow is not installed; the message says how to get it."""


def pyarrow() -> tuple[Any, Any]:
    """pyarrow and its parquet module.

    Raises:
        NeedsPyarrow: it is not installed.
    """
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise NeedsPyarrow("reading parquet packs needs pyarrow: pip install 'mbpack[parquet]'") from error


def read_shard(path: str) -> Shard:
    """What the footer of a parquet file says; a file that cannot be read has a ``problem``.

    Raises:
        NeedsPyarrow: pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    modified = None
    try:
        modified = os.stat(path).st_mtime
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            names = tuple(schema.names)
            mask = str(schema.field("loss_mask").type.value_type) if _is_list(arrow, schema, "loss_mask") else None
            wrong = [f"{name} is {schema.field(name).type}" for name in COLUMNS if name in names]
            wrong = [text for text in wrong if not _is_list(arrow, schema, text.partition(" ")[0])]
            return Shard(
                path,
                rows=int(file.metadata.num_rows),
                columns=names,
                mask_type=mask,
                modified=modified,
                problem=f"{wrong[0]}, a list of numbers is needed" if wrong else None,
            )
    except (OSError, arrow.ArrowException, ValueError, KeyError) as error:
        return Shard(path, modified=modified, problem=one_line(error))


def _is_list(arrow: Any, schema: Any, name: str) -> bool:
    """Whether a column exists once and holds lists of whole numbers or booleans."""
    if schema.names.count(name) != 1:
        return False
    kind, types = schema.field(name).type, arrow.types
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    return bool(types.is_integer(kind.value_type) or (name == "loss_mask" and types.is_boolean(kind.value_type)))


def scan(
    shards: Sequence[Shard], eos: int | None = None, progress: Callable[[int], None] | None = None
) -> tuple[Scan, dict[str, str]]:
    """Go through all rows of the readable shards. Returns the scan and, per path, why reading stopped early.

    Raises:
        NeedsPyarrow: pyarrow is not installed.
    """
    arrow, _ = pyarrow()
    found = Scan(eos)
    problems: dict[str, str] = {}
    for shard in shards:
        if shard.problem or not set(COLUMNS) <= set(shard.columns or ()):
            continue
        try:
            for batch, first_row in _batches(shard.path):
                _add(found, batch, os.path.basename(shard.path), first_row)
                if progress:
                    progress(batch.num_rows)
        except (OSError, arrow.ArrowException, ValueError, OverflowError) as error:
            problems[shard.path] = one_line(error)
    return found, problems


def _batches(path: str) -> Iterator[tuple[Any, int]]:
    _, parquet = pyarrow()
    with parquet.ParquetFile(path) as file:
        total = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        rows = max(file.metadata.num_rows, 1)
        # Dictionary and run-length coding shrink values up to eightfold; a batch is measured as it is in memory.
        size = max(1, min(500, BATCH_BYTES * rows // max(8 * total, 1)))
        first = 0
        for batch in file.iter_batches(batch_size=size, columns=list(COLUMNS)):
            yield batch, first
            first += batch.num_rows


def _add(found: Scan, batch: Any, where: str, first_row: int) -> None:
    import numpy as np

    columns = [batch.column(name) for name in COLUMNS]
    missing = np.zeros(batch.num_rows, dtype=bool)
    for column in columns:
        if column.null_count:
            missing |= column.is_null().to_numpy(zero_copy_only=False)
    if missing.any():
        at = first_row + int(np.flatnonzero(missing)[0])
        found.broken_rows(int(missing.sum()), f"{where} row {at}: a column is null")
        arrow, _ = pyarrow()
        keep = arrow.array(~missing)
        columns = [column.filter(keep) for column in columns]
    ids, mask, starts = (_column(column) for column in columns)
    found.add(ids, mask, starts, where, first_row)


def _column(column: Any) -> Column:
    import numpy as np

    values = column.flatten()
    if values.null_count:
        values = values.fill_null(False) if str(values.type) == "bool" else values.fill_null(-1)
    numbers = values.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    return Column(numbers, counts)


def one_line(error: BaseException) -> str:
    """The first line of an error, without a stray full stop."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
