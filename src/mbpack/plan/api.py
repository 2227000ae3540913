"""What other parts of mbpack ask of planning: the doctor for rules that need data, the wizard for a length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbpack.facts import releases
from mbpack.facts.artifacts import steps_per_epoch
from mbpack.plan._optional import PlanError
from mbpack.plan.candidates import DEFAULT_SEED, LONGEST_PACK, Setup, choose_batch, pack_mapped
from mbpack.plan.histogram import Histogram
from mbpack.plan.packing import Shuffler
from mbpack.plan.readers import Options, read_all
from mbpack.plan.rows import Crash, Loss, Schema, map_rows

__all__ = ["Crash", "Histogram", "Loss", "PlanError", "PlanSummary", "read_lengths", "summary"]


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """What a release makes of a dataset at one configuration.

    Attributes:
        rows: rows in the data.
        tokens: their stored tokens.
        samples: samples that enter packing.
        packs: packed rows of the training split; None when preparation fails, or packing cannot be replayed (a seed
            numpy does not take, a pack beyond :data:`LONGEST_PACK`).
        exact: whether ``packs`` is exact (0.6 and later) or one of the counts that can come out (within about 0.1%).
        packing_factor: samples per pack, mean.
        max_samples_per_bin: samples in the fullest pack, as upstream's metadata has it.
        dropped: rows that vanish without failing, and their tokens.
        truncated: rows that are cut, and the tokens cut off.
        misaligned: samples whose length is no multiple of ``pad_multiple``.
        longest: stored tokens of the longest row.
        crash: why preparation fails, if it does.
    """

    rows: int
    tokens: int
    samples: int
    packs: int | None
    exact: bool
    packing_factor: float | None
    max_samples_per_bin: int | None
    dropped: Loss
    truncated: Loss
    misaligned: int
    longest: int
    crash: Crash | None

    def steps_per_epoch(self, gbs: int, num_epochs: bool = False) -> int | None:
        """Optimizer steps of one pass over the packs: rounded down, with ``train.num_epochs`` (0.6+) rounded up."""
        if self.packs is None:
            return None
        return steps_per_epoch(self.packs, gbs, keeps_last=num_epochs)


def read_lengths(paths: Sequence[str]) -> Histogram:
    """Row lengths of some files together: everything `mbpack plan` reads, except rows of text.

    Raises:
        PlanError: one line that names the file and how to mend it.
    """
    return read_all(paths, Options())[0]


def summary(
    histogram: Histogram,
    pack_size: int,
    pad_multiple: int = 1,
    release: releases.Release = releases.DEFAULT,
    schema: Schema = "chat",
    seed: int = DEFAULT_SEED,
    row_cap: int | None = None,
) -> PlanSummary:
    """Plan one configuration.

    Args:
        histogram: row lengths of the training split.
        pack_size: ``packed_sequence_size``, tokens.
        pad_multiple: ``pad_seq_to_mult``.
        release: the release line.
        schema: whether rows are chats or prompt-completion pairs.
        seed: ``dataset.seed``.
        row_cap: ``dataset.seq_length``, or ``max_single_sequence_length`` where set (0.6+); the pack size by default.

    Raises:
        PlanError: for sizes below 1.
        MissingExtraError: when numpy is not installed.
    """
    cap = pack_size if row_cap is None else row_cap
    if min(pack_size, cap, pad_multiple) < 1:
        raise PlanError(f"pack {pack_size}, row cap {cap}, multiple {pad_multiple}: each must be at least 1")
    setup = Setup(version=releases.version_of(release), schema=schema, seed=seed, multiple=pad_multiple)
    rows = histogram.stored()
    mapped = map_rows(rows, release, schema, cap, pad_multiple, pack_size)
    packed = None
    if mapped.crash is None and pack_size <= LONGEST_PACK and 0 <= seed < 1 << 32:
        packed = pack_mapped(mapped, pack_size, choose_batch(pack_size, setup, pack_size), setup, [Shuffler(seed)])
    return PlanSummary(
        rows=rows.rows,
        tokens=rows.tokens,
        samples=mapped.samples,
        packs=packed.packs if packed else None,
        exact=setup.seeded,
        packing_factor=packed.samples_mean if packed else None,
        max_samples_per_bin=packed.samples_max if packed else None,
        dropped=mapped.dropped,
        truncated=mapped.truncated,
        misaligned=mapped.misaligned,
        longest=rows.longest,
        crash=mapped.crash,
    )
