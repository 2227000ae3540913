"""Counted lengths as evidence: the same planning as ``mbpack plan``, for the rules that need the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from mbpack.config.evidence import Evidence, PlannedPacks
from mbpack.config.in_effect import pack_size, pad_multiple, sample_limit
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.rules.packs.lookup import is_chat


def read_lengths(sources: Sequence[str]) -> Mapping[int, int]:
    """Rows per stored length, of everything the sources hold together.

    Raises:
        PlanError: a source cannot be read; the message says which, where and how to mend it.
    """
    from mbpack.plan.readers import Options, read_all

    histogram, _ = read_all(sources, Options())
    stored = histogram.stored()
    return dict(zip(stored.lengths.tolist(), stored.counts.tolist(), strict=True))


def with_lengths(look: Callable[[Run], Evidence], lengths: Mapping[int, int]) -> Callable[[Run], Evidence]:
    """A look at the disk, together with what the lengths say."""
    return lambda run: replace(look(run), raw_lengths=lengths, planned=planned(run, lengths))


def planned(run: Run, lengths: Mapping[int, int]) -> PlannedPacks | None:
    """What offline packing will make of the rows; None where the configuration does not pack, or not enough is known."""
    from mbpack.plan.api import Histogram, summary

    try:
        size = pack_size(run) if run.offline else None
        if size is None or size <= 0:
            return None
        multiple, limit, chat = pad_multiple(run) or 1, sample_limit(run), is_chat(run)
        seed = run.number("dataset.seed", 1234)
    except (Unknown, WrongKind):
        return None
    if multiple <= 0 or (limit is not None and limit <= 0) or not isinstance(seed, int):
        return None
    release = run.release
    try:
        found = summary(
            Histogram.of_counts(list(lengths), list(lengths.values())),
            size,
            multiple,
            release,
            "chat" if chat else "prompt-completion",
            seed,
            row_cap=limit,
        )
    except MemoryError:  # more rows than can be packed here: the rules that need the packs do without them
        return None
    if found.packs is None or found.packing_factor is None:
        return None
    return PlannedPacks(found.packs, found.packing_factor, found.exact)
