"""The length distribution as a chart: in the terminal, or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mbpack.plan._optional import PlanError, one_line, optional
from mbpack.plan.candidates import Candidate
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


def check_plot(path: str) -> Any:
    """The module that draws, once it is sure that it can write such a file.

    Raises:
        MissingExtraError: without matplotlib.
        PlanError: for a file type it cannot write.
    """
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise PlanError(f"{path}: a plot is written as .png, .svg or .pdf")
    return optional("matplotlib.figure", "plot", "--plot")


def plot(histogram: Histogram, candidates: Sequence[Candidate], path: str) -> None:
    """Write a picture: the distribution with the pack lengths, and what each candidate keeps and fills.

    Raises:
        MissingExtraError: without matplotlib.
        PlanError: for a file type it cannot write, or a folder that cannot be written.
    """
    figures = check_plot(path)
    figure = figures.Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = buckets(histogram, 20)
    labels = [f"{bucket.limit:,}" for bucket in found]
    places = range(len(found))
    left.bar(places, [bucket.rows_share for bucket in found], width=0.8, label="rows")
    left.plot(places, [bucket.tokens_share for bucket in found], "o-", color="tab:orange", label="tokens")
    for candidate in candidates:
        if candidate.pack_size in (bucket.limit for bucket in found):
            place = next(i for i, bucket in enumerate(found) if bucket.limit == candidate.pack_size)
            left.axvline(place + 0.5, color="grey", linestyle=":", linewidth=1)
    left.set_xticks(list(places), labels, rotation=60, ha="right", fontsize=8)
    left.set_xlabel("row length up to (tokens); dotted: pack lengths")
    left.set_ylabel("share (%)")
    left.legend()
    names = [f"{candidate.pack_size:,}" for candidate in candidates]
    right.plot(names, [candidate.kept_share for candidate in candidates], "o-", label="tokens kept")
    right.plot(names, [candidate.packed.fill if candidate.packed else None for candidate in candidates], "s--", label="fill")
    right.set_xlabel("pack length (tokens)")
    right.set_ylabel("%")
    right.legend()
    try:
        figure.savefig(path, metadata={"Date": None} if path.lower().endswith(".svg") else None)
    except OSError as error:
        raise PlanError(f"{path}: cannot write the plot ({one_line(error)})") from None
