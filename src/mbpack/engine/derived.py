"""The values that follow from a configuration, each with its derivation; a value whose inputs are unknown is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind
from mbpack.facts.formulas import Derived
from mbpack.facts.keys import COPY
from mbpack.facts.releases import R06, R07


def derived_values(run: Run) -> dict[str, Derived]:
    """All derived values that can be known, in the order reports show them."""
    values: dict[str, Derived] = {}
    for name, compute in _COMPUTATIONS:
        try:
            value = compute(run)
        except (Unknown, WrongKind):
            continue
        if value is not None:
            values[name] = value
    return values


def _data_parallel(run: Run) -> Derived:
    tp, pp, cp = map(run.given_size, COPY)
    size = tp * pp * cp
    gpus = run.copy_gpus
    if size < 0 and gpus % size == 0:  # what upstream computes; a rule says that it cannot be
        return Derived(int(gpus // size), f"{gpus} / (TP {tp} x PP {pp} x CP {cp})")
    return formulas.data_parallel_size(gpus, tp, pp, cp) if run.dp else Derived(0, "")


def _pad_seq_to_mult(run: Run) -> Derived:
    return run.mult


def _collates(run: Run) -> bool:
    return run.release >= R06 and run.dataset in COLLATING


def _collate_alignment(run: Run) -> Derived | None:
    if run.release < R06:
        return None
    text = run.release >= R07 and run.dataset is DatasetKind.GPT_SFT
    if (text or run.dataset in COLLATING) and run.in_batch:
        return run.mult
    if text and run.global_batch:
        return run.online_multiple
    return run.mult if _collates(run) and run.energon_packing else None


def _pad_to_multiple_of(run: Run) -> Derived | None:
    if not _collates(run) or run.in_batch or run.energon_packing:
        return None
    own = run.number("dataset.pad_to_multiple_of", 128)
    return formulas.unpacked_multiple(int(own), run.mult.value) if own else None


def _microbatches(run: Run) -> Derived:
    return run.microbatches


def _token_slots(run: Run) -> Derived | None:
    width, gbs = run.width, run.gbs
    return formulas.token_slots(int(width), int(gbs)) if width and gbs and width > 0 and gbs > 0 else None


def _pack_capacity(run: Run) -> Derived | None:
    if run.offline:
        return Derived(int(run.pack_size), "packed_sequence_size") if run.pack_size else None
    if run.global_batch:
        per_rank = run.number("model.max_seqlen_per_dp_cp_rank")
        return formulas.pack_capacity(int(per_rank), run.cp) if per_rank else None
    if run.energon_packing:
        return Derived(int(run.width), "dataset.seq_length") if run.width else None
    return None


_COMPUTATIONS: tuple[tuple[str, Callable[[Run], Derived | None]], ...] = (
    ("data_parallel_size", _data_parallel),
    ("pad_seq_to_mult", _pad_seq_to_mult),
    ("collate_alignment", _collate_alignment),
    ("pad_to_multiple_of", _pad_to_multiple_of),
    ("num_microbatches", _microbatches),
    ("token_slots_per_step", _token_slots),
    ("pack_capacity", _pack_capacity),
)


def names() -> Iterator[str]:
    """Names of the derived values."""
    return (name for name, _ in _COMPUTATIONS)
