"""From stored rows to the samples that are packed: what is cut off, what is dropped, and what makes upstream fail.

n is a row's stored length (special tokens included), S the row cap, m the padding multiple. The runtime length of a
sample is its stored length less one, because labels are the inputs shifted by one. Sources, by release:
``tokenize_dataset`` and ``create_hist`` in ``data/datasets/packed_sequence.py`` and ``packing_utils.py`` (0.3 to 0.5),
``data/packing/offline.py`` and ``algorithms.py`` (0.6, 0.7); truncation in ``GPTSFTDataset`` and
``tokenize_prompt_completion_example``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mbpack.facts.releases import R06, Release
from mbpack.plan._optional import numpy
from mbpack.plan.histogram import Histogram

if TYPE_CHECKING:
    from mbpack.plan._optional import IntArray

Schema = Literal["chat", "prompt-completion"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows affected, and the stored tokens that never reach training because of it."""

    rows: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Crash:
    """Preparation fails upstream.

    Attributes:
        slug: the rule that describes it.
        message: what fails and how to mend it, one line.
        rows: rows that cause it.
        tokens: their stored tokens.
        without: whether the numbers beside it describe the dataset after those rows were taken out.
    """

    slug: str
    message: str
    rows: int
    tokens: int
    without: bool


@dataclass(frozen=True, slots=True)
class Mapped:
    """The samples that enter packing.

    Attributes:
        lengths: distinct runtime lengths in tokens, increasing, alignment included, shape (k,).
        counts: samples of each, shape (k,).
        real_tokens: runtime tokens without alignment padding.
        alignment_tokens: padding added inside samples to reach the multiple.
        truncated: rows that are cut, and the tokens cut off.
        dropped: rows that vanish, and their tokens.
        misaligned: samples whose runtime length is no multiple of m although one was asked for.
        crash: why preparation fails, if it does.
    """

    lengths: IntArray
    counts: IntArray
    real_tokens: int
    alignment_tokens: int
    truncated: Loss
    dropped: Loss
    misaligned: int
    crash: Crash | None

    @property
    def samples(self) -> int:
        """Samples that enter packing."""
        return int(self.counts.sum())

    @property
    def longest(self) -> int:
        """Longest runtime length in tokens; 0 without samples."""
        return int(self.lengths[-1]) if len(self.lengths) else 0


def map_rows(histogram: Histogram, release: Release, schema: Schema, row_cap: int, multiple: int, pack_size: int) -> Mapped:
    """Map every row to the sample that ``release`` packs.

    Args:
        histogram: rows in stored or runtime lengths.
        release: the release line that prepares the packs.
        schema: prompt-completion rows are truncated by the dataset; chat rows are not.
        row_cap: S, tokens: ``dataset.seq_length``, or from 0.6 ``max_single_sequence_length`` where set.
        multiple: m, ``pad_seq_to_mult``.
        pack_size: C, tokens; a sample longer than that makes the packer fail.
    """
    np = numpy()
    rows = histogram.stored()
    stored, counts = rows.lengths, rows.counts
    crash: Crash | None = None
    keep = np.ones(len(stored), dtype=bool)

    if release >= R06:
        if multiple > 1:
            cap = row_cap // multiple * multiple
            real = np.minimum(np.maximum(stored - 1, 0), cap)
            runtime = np.minimum(cap, -(-real // multiple) * multiple)
            if cap == 0:
                crash = Crash(
                    "align/mult-larger-than-seq",
                    f"a row cap of {row_cap:,} is below the padding multiple {multiple}: preparation refuses "
                    "(ValueError); raise the length or lower the multiple",
                    rows.rows,
                    rows.tokens,
                    without=False,
                )
        else:
            kept = np.minimum(stored, row_cap) if schema == "prompt-completion" else stored
            real = runtime = kept - 1
            keep = runtime <= row_cap
    elif schema == "prompt-completion":
        kept = np.minimum(stored, row_cap)
        real = np.maximum(kept - 1, 0) if multiple > 1 else kept - 1
        runtime = np.minimum(row_cap, -(-kept // multiple) * multiple) if multiple > 1 else real
    else:
        real = runtime = stored - 1
        over = runtime > row_cap
        if multiple > 1 and len(stored):
            crash = Crash(
                "data/chat-pad-type-error",
                f"chat rows cannot be padded to a multiple ({multiple}) before 0.6: preparation fails (TypeError); "
                "use 0.6, or a topology without context parallelism",
                rows.rows,
                rows.tokens,
                without=False,
            )
        elif over.any():
            number = int(counts[over].sum())
            crash = Crash(
                "data/chat-overlong-index-error",
                f"{number:,} chat rows are longer than {row_cap:,}: before 0.6 they are not truncated and preparation "
                "fails (IndexError); filter them out or raise dataset.seq_length",
                number,
                int((counts * stored)[over].sum()),
                without=True,
            )
        # rows that make preparation fail are taken out of the numbers, not counted as dropped by upstream
        stored, counts, real, runtime, keep = (a[~over] for a in (stored, counts, real, runtime, keep))

    # An empty row has runtime length -1 where no multiple lifts it to 0: it is in no histogram cell and vanishes.
    keep = keep & (runtime >= 0)
    dropped = Loss(int(counts[~keep].sum()), int((counts * stored)[~keep].sum()))
    stored, counts, real, runtime = stored[keep], counts[keep], real[keep], runtime[keep]

    lost = np.maximum(stored - 1 - real, 0)
    truncated = Loss(int(counts[lost > 0].sum()), int((lost * counts).sum()))
    misaligned = int(counts[runtime % multiple != 0].sum())

    too_long = runtime > pack_size
    if crash is None and too_long.any():
        number = int(counts[too_long].sum())
        crash = Crash(
            "seq/pack-size-equals-seq",
            f"{number:,} samples are longer than the pack ({pack_size:,}): packing fails (KeyError) and the other "
            "ranks hang; set the row cap to the pack size",
            number,
            int((counts * stored)[too_long].sum()),
            without=True,
        )
    counts, real, runtime = counts[~too_long], real[~too_long], runtime[~too_long]
    packed = Histogram.of_counts(runtime, counts, "runtime")
    if crash is None and packed.rows == 0:
        crash = Crash("gbs/not-enough-rows", "no row is left to pack: preparation fails", rows.rows, rows.tokens, without=False)
    real_tokens = int((np.maximum(real, 0) * counts).sum())
    return Mapped(
        packed.lengths,
        packed.counts,
        real_tokens,
        packed.tokens - real_tokens,
        truncated,
        dropped,
        misaligned,
        crash,
    )
