"""The exact histogram of row lengths: what every planning function starts from.

A histogram is a few thousand numbers whatever the size of the dataset, adds up exactly over shards, and holds all that
packing depends on. It can be counted where the data lives and planned with on a laptop.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mbpack.config.writing import write_atomically
from mbpack.plan._optional import PlanError, numpy

if TYPE_CHECKING:
    from mbpack.plan._optional import IntArray

#: ``stored``: tokens of a row as stored, special tokens included. ``runtime``: what the model sees, one less.
Counted = Literal["stored", "runtime"]

FORMAT = "mbpack-lengths"
_DENSE = 1 << 22  # longest row for which a dense count array is used, tokens
_LONGEST = 1 << 40  # anything longer is not a token count


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Rows per length.

    Attributes:
        lengths: distinct row lengths in tokens, increasing, shape (k,), int64.
        counts: rows of each length, all positive, shape (k,), int64.
        counted: which length was counted.
    """

    lengths: IntArray
    counts: IntArray
    counted: Counted = "stored"

    @classmethod
    def empty(cls, counted: Counted = "stored") -> Histogram:
        """A histogram of no rows."""
        np = numpy()
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), counted)

    @classmethod
    def of_lengths(cls, lengths: Any, counted: Counted = "stored") -> Histogram:
        """Count a one-dimensional integer array or sequence of row lengths.

        Raises:
            PlanError: for lengths that are not whole, negative, or absurdly large.
        """
        np = numpy()
        values = np.asarray(lengths)
        if values.size == 0:
            return cls.empty(counted)
        values = values.ravel()
        if values.dtype.kind == "f":
            if not np.isfinite(values).all() or (values != np.floor(values)).any():
                raise PlanError("lengths must be whole numbers of tokens")
            if np.abs(values).max() > _LONGEST:
                raise PlanError(f"{values[np.abs(values).argmax()]:g} is no plausible number of tokens in one row")
            values = values.astype(np.int64)
        if values.dtype.kind not in "iu":
            raise PlanError(f"lengths must be whole numbers of tokens, found {values.dtype} values")
        low, high = int(values.min()), int(values.max())
        if low < 0:
            raise PlanError(f"a length cannot be negative, found {low}")
        if high > _LONGEST:
            raise PlanError(f"{high:,} is no plausible number of tokens in one row")
        if high < _DENSE:
            dense = np.bincount(values)
            places = np.flatnonzero(dense)
            return cls(places.astype(np.int64), dense[places].astype(np.int64), counted)
        places, counts = np.unique(values, return_counts=True)
        return cls(places.astype(np.int64), counts.astype(np.int64), counted)

    @classmethod
    def of_counts(cls, lengths: Any, counts: Any, counted: Counted = "stored") -> Histogram:
        """From pairs in any order; equal lengths add up, lengths without rows are left out.

        Raises:
            PlanError: when the two differ in shape, or a number is negative.
        """
        np = numpy()
        places = np.asarray(lengths, dtype=np.int64).ravel()
        rows = np.asarray(counts, dtype=np.int64).ravel()
        if places.shape != rows.shape:
            raise PlanError(f"{len(places)} lengths with {len(rows)} counts: both must have the same number of entries")
        if len(places) and (int(places.min()) < 0 or int(rows.min()) < 0):
            raise PlanError("lengths and counts cannot be negative")
        distinct, index = np.unique(places, return_inverse=True)
        total = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(total, index.ravel(), rows)
        keep = total > 0
        return cls(distinct[keep], total[keep], counted)

    @classmethod
    def merge(cls, parts: Iterable[Histogram]) -> Histogram:
        """Add histograms up, exactly.

        Raises:
            PlanError: when the parts counted different lengths (stored and runtime).
        """
        np = numpy()
        full = [part for part in parts if len(part.lengths)]
        kinds = {part.counted for part in full}
        if len(kinds) > 1:
            raise PlanError("cannot add stored and runtime lengths up: convert one of them (runtime = stored - 1)")
        if not full:
            return cls.empty()
        if len(full) == 1:
            return full[0]
        lengths = np.concatenate([part.lengths for part in full])
        counts = np.concatenate([part.counts for part in full])
        return cls.of_counts(lengths, counts, full[0].counted)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def tokens(self) -> int:
        """Tokens in all rows."""
        return int((self.lengths * self.counts).sum())

    @property
    def longest(self) -> int:
        """Length of the longest row in tokens; 0 without rows."""
        return int(self.lengths[-1]) if len(self.lengths) else 0

    @property
    def mean(self) -> float:
        """Mean row length in tokens; 0 without rows."""
        return self.tokens / self.rows if self.rows else 0.0

    def percentile(self, share: float) -> float:
        """Percentile of the row lengths as numpy computes it (linear between neighbours); 0 without rows."""
        np = numpy()
        if not len(self.lengths):
            return 0.0
        place = share / 100 * (self.rows - 1)
        below = int(place)
        ends = np.cumsum(self.counts)
        low, high = (
            int(self.lengths[np.searchsorted(ends, min(rank, self.rows - 1), side="right")]) for rank in (below, below + 1)
        )
        return low + (place - below) * (high - low)

    def stored(self) -> Histogram:
        """The same rows in stored lengths: runtime lengths are one shorter, because labels are the inputs shifted."""
        return self if self.counted == "stored" else Histogram(self.lengths + 1, self.counts, "stored")

    def same(self, other: Histogram) -> bool:
        """Whether both hold the same rows, counted the same way."""
        np = numpy()
        return (
            self.counted == other.counted
            and np.array_equal(self.lengths, other.lengths)
            and np.array_equal(self.counts, other.counts)
        )

    def to_json(self, schema: str | None = None, tokenizer: str | None = None) -> str:
        """One JSON object; ``rows`` and ``tokens`` let a reader check that nothing was cut off.

        ``schema`` (prompt-completion or chat) says what the rows were, ``tokenizer`` what counted them; None where unknown.
        """
        data = {
            "format": FORMAT,
            "version": 1,
            "counted": self.counted,
            "rows": self.rows,
            "tokens": self.tokens,
            "schema": schema,
            "tokenizer": tokenizer,
            "lengths": self.lengths.tolist(),
            "counts": self.counts.tolist(),
        }
        return json.dumps(data, separators=(",", ":")) + "\n"

    @classmethod
    def of_json(cls, data: object) -> Histogram:
        """From the parsed JSON of :meth:`to_json`.

        Raises:
            PlanError: for another format, a newer version, or totals that do not agree.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise PlanError("not a length histogram written by `mbpack lengths`")
        if data.get("version") != 1:
            raise PlanError(f"histogram version {data.get('version')!r} is newer than this mbpack reads (1)")
        if data.get("counted") not in ("stored", "runtime"):
            raise PlanError("the histogram does not say whether it counted stored or runtime lengths")
        try:
            histogram = cls.of_counts(data["lengths"], data["counts"], data["counted"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, PlanError):
                raise
            raise PlanError("the histogram's lengths and counts are not two lists of whole numbers") from None
        if (histogram.rows, histogram.tokens) != (data.get("rows"), data.get("tokens")):
            raise PlanError("the histogram's totals do not agree with its entries: the file is damaged, count again")
        return histogram

    def save(self, path: str | os.PathLike[str], schema: str | None = None, tokenizer: str | None = None) -> None:
        """Write as JSON, atomically: a reader sees the old file or the whole new one."""
        write_atomically(os.fspath(path), self.to_json(schema, tokenizer).encode())
