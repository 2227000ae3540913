"""The length distribution as a chart in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbpack.plan.histogram import Histogram

_BAR = 30  # characters of the longest bar


@dataclass(frozen=True, slots=True)
class Bucket:
    """Rows longer than the bucket before and at most ``limit`` tokens; shares in percent."""

    limit: int
    rows: int
    rows_share: float
    tokens_share: float


def buckets(histogram: Histogram, most: int = 12) -> list[Bucket]:
    """The distribution in powers of two, the short end taken together so that there are at most ``most`` buckets."""
    rows = histogram.stored()
    if not rows.rows:
        return []
    top = max(0, (rows.longest - 1).bit_length())
    bottom = max(max(0, (int(rows.lengths[0]) - 1).bit_length()), top - most + 1)
    found = []
    before = -1
    for power in range(bottom, top + 1):
        limit = 1 << power
        inside = (rows.lengths > before) & (rows.lengths <= limit)
        number = int(rows.counts[inside].sum())
        tokens = int((rows.counts * rows.lengths)[inside].sum())
        found.append(Bucket(limit, number, 100 * number / rows.rows, 100 * tokens / max(1, rows.tokens)))
        before = limit
    return found


def terminal_chart(histogram: Histogram, packs: Sequence[int], unicode: bool) -> list[str]:
    """One line a bucket: rows as a bar, share of rows and tokens, and the pack lengths that end there."""
    found = buckets(histogram)
    if not found:
        return []
    widest = max(bucket.rows_share for bucket in found)
    lines = ["  up to tokens   rows" + " " * (_BAR + 2) + "of rows  of tokens"]
    for bucket in found:
        mark = " < pack" if bucket.limit in packs else ""
        bar = _bar(bucket.rows_share / widest * _BAR if widest else 0, unicode)
        lines.append(f"  {bucket.limit:>12,}   {bar:<{_BAR + 4}} {bucket.rows_share:>8.1f}% {bucket.tokens_share:>8.1f}%{mark}")
    return lines


def _bar(length: float, unicode: bool) -> str:
    """A bar of a length in characters, to an eighth of a character where the terminal can show it."""
    if not unicode:
        return "#" * round(length) or ("." if length > 0 else "")
    whole, part = divmod(round(length * 8), 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "") or ("▏" if length > 0 else "")
