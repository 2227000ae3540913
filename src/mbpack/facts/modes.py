"""The packing modes, named once."""

from __future__ import annotations

from msgspec import Struct

from mbpack.facts.releases import NIGHTLY, R03, R07, Release


class Mode(Struct, frozen=True):
    """One way of packing: its name in reports and flags, where the packing happens, and its batch rule."""

    name: str
    title: str
    where: str
    micro_batch: str
    width: str
    counts: str
    since: Release


OFFLINE = Mode(
    "offline",
    "offline packing",
    "before training: samples are tokenised and packed into fixed-capacity rows on disk",
    "micro_batch_size 1: a row already is a full pack",
    "packed_sequence_size (dynamic up to it unless pad_to_max_length)",
    "global_batch_size counts packs",
    R03,
)
IN_BATCH = Mode(
    "in_batch",
    "in-batch packing",
    "in the collate function (or the step): the rows of one microbatch are concatenated",
    "micro_batch_size 2 or more: one microbatch becomes one row",
    "the sum of the rows, up to micro_batch_size x seq_length",
    "global_batch_size counts samples",
    R03,
)
ENERGON = Mode(
    "energon",
    "native Energon packing",
    "in the Energon loader: a buffer of samples is packed in every worker",
    "micro_batch_size 1",
    "up to dataset.seq_length",
    "global_batch_size counts packs",
    R07,
)
GLOBAL_BATCH = Mode(
    "global_batch",
    "global-batch packing",
    "in Megatron-Core's scheduler: the samples of one whole step are packed across data parallel ranks",
    "micro_batch_size 1; the number of microbatches varies per step",
    "max_seqlen_per_dp_cp_rank x CP",
    "global_batch_size counts samples",
    R07,
)
NONE = Mode(
    "none",
    "no packing",
    "nowhere: every sample is one row",
    "any micro_batch_size",
    "seq_length",
    "global_batch_size counts samples",
    R03,
)

#: Packing schedulers of Megatron-Core; the second is in its dev branch only, which nightly can be installed with.
SCHEDULERS = ("dp_balanced", "default_dynamic_cp")


def schedulers(release: Release) -> tuple[str, ...]:
    """The packing schedulers that a release can be started with; the first is taken where none is named."""
    return SCHEDULERS if release >= NIGHTLY else SCHEDULERS[:1]


MODES: dict[str, Mode] = {mode.name: mode for mode in (OFFLINE, IN_BATCH, ENERGON, GLOBAL_BATCH, NONE)}
