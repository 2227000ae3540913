"""Statistics over packed rows, batch by batch.

A batch is six flat arrays: for each of the three columns its values and the number of values in every row. Everything
is computed on whole batches; memory is that of one batch and of the histogram of lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mbpack.config.evidence import RowStatistics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

#: Broken rows that are put into words.
MAX_BROKEN = 5


class Column(NamedTuple):
    """Values of one list column, one row after the other, and how many each row has."""

    values: Ints
    counts: Ints


class Scan:
    """Adds up :class:`~mbpack.config.evidence.RowStatistics`; ``eos`` is the end-of-sequence token, None to find it."""

    def __init__(self, eos: int | None = None) -> None:
        self.eos = eos
        self._eos_given = eos is not None
        self._lengths: dict[int, int] = {}
        self._rows = self._supervised = self._without_loss = self._most_samples = self._longest = self._largest = 0
        self._shortest: int | None = None
        self._longest_at = ""
        self._broken_rows = self._pad_loss = 0
        self._broken: list[str] = []

    def add(self, ids: Column, mask: Column, starts: Column, where: str, first_row: int) -> None:
        """Take in one batch; ``where`` and ``first_row`` name its rows in messages."""
        import numpy as np

        rows = len(ids.counts)
        self._rows += rows
        row_of_start = np.repeat(np.arange(rows), starts.counts)
        offsets = _offsets(starts.counts)
        ends = np.empty_like(starts.values)
        ends[:-1] = starts.values[1:]
        filled = starts.counts > 0
        ends[offsets[1:][filled] - 1] = ids.counts[filled]
        lengths = ends - starts.values - 1
        broken = self._judge(ids, mask, starts, lengths, row_of_start, offsets, where, first_row)
        good = ~broken
        self._count_lengths(lengths[good[row_of_start]])
        sums = np.zeros(rows, dtype=np.int64)
        np.add.at(sums, row_of_start, lengths)
        loss = _row_sums(mask) - _last_of_samples(mask, ends, row_of_start, good)
        if good.any():
            widths = sums[good]
            longest = int(widths.max())
            if longest > self._longest:
                at = int(np.flatnonzero(good)[int(widths.argmax())])
                self._longest, self._longest_at = longest, f"{where} row {first_row + at}"
            shortest = int(widths.min())
            self._shortest = shortest if self._shortest is None else min(self._shortest, shortest)
            self._most_samples = max(self._most_samples, int(starts.counts[good].max()))
            self._supervised += int(loss[good].sum())
            self._without_loss += int((loss[good] == 0).sum())
        if len(ids.values):
            self._largest = max(self._largest, int(ids.values.max()))
        if good.all() and rows:
            self._count_pad_loss(ids, mask, starts, ends, row_of_start)

    def broken_rows(self, count: int, example: str) -> None:
        """Rows that could not even be taken apart."""
        self._rows += count
        self._note(count, example)

    def result(self) -> RowStatistics:
        """Everything added up."""
        return RowStatistics(
            rows=self._rows,
            lengths=self._lengths,
            longest_row=self._longest,
            shortest_row=self._shortest or 0,
            most_samples=self._most_samples,
            supervised=self._supervised,
            rows_without_loss=self._without_loss,
            broken_rows=self._broken_rows,
            broken=tuple(self._broken),
            longest_at=self._longest_at,
            eos=self.eos,
            samples_with_pad_loss=self._pad_loss,
            largest_token=self._largest,
        )

    # ------------------------------------------------------------------ parts

    def _note(self, count: int, example: str) -> None:
        self._broken_rows += count
        if len(self._broken) < MAX_BROKEN:
            self._broken.append(example)

    def _judge(
        self,
        ids: Column,
        mask: Column,
        starts: Column,
        lengths: Ints,
        row_of_start: Ints,
        offsets: Ints,
        where: str,
        first_row: int,
    ) -> NDArray[np.bool_]:
        import numpy as np

        rows = len(ids.counts)
        broken = np.zeros(rows, dtype=bool)
        first = np.zeros(rows, dtype=np.int64)
        filled = starts.counts > 0
        first[filled] = starts.values[offsets[:-1][filled]]
        off_mask = np.zeros(rows, dtype=bool)
        off_mask[np.repeat(np.arange(rows), mask.counts)[(mask.values < 0) | (mask.values > 1)]] = True
        short = np.zeros(rows, dtype=bool)
        short[row_of_start[lengths < 1]] = True
        faults = (
            (ids.counts != mask.counts, "loss_mask and input_ids differ in length"),
            (~filled, "seq_start_id is empty"),
            (first != 0, "seq_start_id does not start with 0"),
            (off_mask, "loss_mask holds something other than 0 and 1"),
            (short, "seq_start_id leaves a sample without a token (it must rise, below the row's end)"),
        )
        for fault, text in faults:
            new = fault & ~broken
            if new.any():
                self._note(int(new.sum()), f"{where} row {first_row + int(np.flatnonzero(new)[0])}: {text}")
            broken |= fault
        return broken

    def _count_lengths(self, lengths: Ints) -> None:
        import numpy as np

        for length, count in zip(*np.unique(lengths, return_counts=True), strict=True):
            self._lengths[int(length)] = self._lengths.get(int(length), 0) + int(count)

    def _count_pad_loss(self, ids: Column, mask: Column, starts: Column, ends: Ints, row_of_start: Ints) -> None:
        """Samples in which more than one position after the last real token carries loss."""
        import numpy as np

        row_start = _offsets(ids.counts)[:-1][row_of_start]
        begin, end = starts.values + row_start, ends + row_start
        if self.eos is None and not self._eos_given:
            last, counts = np.unique(ids.values[end - 1], return_counts=True)
            self._eos_given = True
            if 2 * int(counts.max()) >= len(end):
                self.eos = int(last[int(counts.argmax())])
        if self.eos is None:
            return
        positions = np.where(ids.values != self.eos, np.arange(len(ids.values)), -1)
        last_real = np.maximum(np.maximum.reduceat(positions, begin), begin - 1)
        loss = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(mask.values)))
        on_padding = loss[end - 1] - loss[np.minimum(last_real + 1, end - 1)]
        self._pad_loss += int((on_padding > 1).sum())


def _offsets(counts: Ints) -> Ints:
    import numpy as np

    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))


def _last_of_samples(mask: Column, ends: Ints, row_of_start: Ints, good: NDArray[np.bool_]) -> Ints:
    """Loss on the last position of each sample, by row: it has no label, and no batch holds it.

    Source: 0.3 to 0.5 `data/datasets/sft.py`, 0.6, 0.7 `data/packing/gpt_sft.py`, `_build_loss_mask` of packed rows.
    """
    import numpy as np

    kept = good[row_of_start]
    rows = row_of_start[kept]
    last = _offsets(mask.counts)[:-1][rows] + ends[kept] - 1
    sums = np.zeros(len(mask.counts), dtype=np.int64)
    np.add.at(sums, rows, mask.values[last].astype(np.int64))
    return sums


def _row_sums(column: Column) -> Ints:
    import numpy as np

    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(column.values)))
    offsets = _offsets(column.counts)
    sums: Any = total[offsets[1:]] - total[offsets[:-1]]
    return sums  # type: ignore[no-any-return]
