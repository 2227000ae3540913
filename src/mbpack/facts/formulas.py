"""The arithmetic of packing: every derived number together with its derivation in words.

Each function returns a :class:`Derived`: the value and a short text that shows how it came about, so that 8 is never
printed without ``lcm(2*CP = 4, CP*TP = 8)``. Lengths are in tokens, batch sizes in samples (packed runs: packs).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

_Number = TypeVar("_Number", int, float)


class Derived(NamedTuple):
    """A value and how it was derived. ``because`` never repeats the value: print ``f"{value} = {because}"``."""

    value: int
    because: str

    def __str__(self) -> str:
        return f"{self.value:,} = {self.because}" if self.because else f"{self.value:,}"


class Share(NamedTuple):
    """A share between 0 and 1, and how it was derived."""

    value: float
    because: str

    def __str__(self) -> str:
        return f"{self.value:.0%} = {self.because}"


def lcm(*numbers: int) -> int:
    """Least common multiple of positive whole numbers."""
    return math.lcm(*numbers)


def pad_multiple(tp: int, cp: int, sp: bool, eval_cp: int | None = None) -> Derived:
    """The multiple that every packed sample's length needs, in tokens.

    Context parallelism cuts a sample into ``2*CP`` pieces; sequence parallelism splits what a rank holds over TP. Both
    are taken over the training and, where one is set, the evaluation context parallel size.

    Source: ``collate_padding_multiple`` in ``ConfigContainer.validate`` (0.6, 0.7) and
    ``sync_offline_packing_alignment`` in ``scripts/training/recipe_runner.py`` (0.6, 0.7).
    """
    terms: list[tuple[str, int]] = []
    sizes = [("CP", cp)]
    if eval_cp is not None and eval_cp != cp:
        sizes.append(("eval CP", eval_cp))
    for name, size in sizes:
        if size > 1:
            terms.append((f"2*{name}", 2 * size))
        if sp and tp > 1:
            terms.append((f"{name}*TP", size * tp))
    if not terms:
        return Derived(1, "CP 1" + ("" if tp == 1 or sp else ", no sequence parallel") + ": no alignment needed")
    value = math.lcm(*(number for _, number in terms))
    words = ", ".join(f"{name} = {number}" for name, number in terms)
    if len(terms) > 1:
        return Derived(value, f"lcm({words})")
    name = terms[0][0]
    return Derived(value, f"{name} = 2*{value // 2}" if name.startswith("2*") else f"{name} = {value // tp}*{tp}")


def step_pad_multiple(tp: int, cp: int) -> Derived:
    """The multiple used when ``qwen3_vl_step`` packs by itself; sequence parallel plays no part.

    Source: ``models/qwen_vl/qwen3_vl_step.py`` (0.4 to 0.7).
    """
    return Derived(2 * tp * cp, "2*TP*CP") if cp > 1 else Derived(tp, "TP")


def dynamic_cp_multiple(dp: int, tp: int, cp: int, sp: bool, eval_cp: int | None = None) -> Derived:
    """The multiple under dynamic context parallelism: any sample may be cut over the whole pool of DP*CP ranks.

    ``dp`` is that of the training, also for the evaluation's context parallel size. Source: ``ConfigContainer.validate`` of
    nightly.
    """
    terms: list[tuple[str, int]] = []
    sizes = [("CP", cp)] if eval_cp is None or eval_cp == cp else [("CP", cp), ("eval CP", eval_cp)]
    for name, size in sizes:
        terms.append((f"2*DP*{name}", 2 * dp * size))
        if sp and tp > 1:
            terms.append((f"{name}*TP", size * tp))
    value = math.lcm(*(number for _, number in terms))
    if len(terms) == 1:
        return Derived(value, f"2*DP*CP = 2*{dp}*{cp}")
    return Derived(value, f"lcm({', '.join(f'{name} = {number}' for name, number in terms)})")


def documented_dynamic_multiple(dp: int, tp: int, cp: int, sp: bool) -> int:
    """The multiple that the documentation of dynamic context parallelism gives: with sequence parallel also DP*CP*TP."""
    pool = dp * cp
    return math.lcm(2 * pool, pool * tp) if sp and tp > 1 else 2 * pool


def unpacked_multiple(pad_to_multiple_of: int, multiple: int) -> Derived:
    """What the validation writes to ``dataset.pad_to_multiple_of`` of an unpacked Direct-HF, Energon or mock-VLM dataset."""
    return Derived(math.lcm(pad_to_multiple_of, multiple), f"lcm({pad_to_multiple_of}, {multiple})")


def model_parallel_size(tp: int, pp: int, cp: int) -> Derived:
    """GPUs that hold one copy of the model."""
    return Derived(tp * pp * cp, f"TP {tp} x PP {pp} x CP {cp}")


def data_parallel_size(gpus: int, tp: float, pp: float, cp: float) -> Derived:
    """Copies of the model: GPUs / (TP*PP*CP), whole also where a size is a fraction.

    Raises:
        ValueError: when the GPUs do not divide; the message names the numbers.
    """
    size = tp * pp * cp
    if size <= 0 or gpus % size:
        raise ValueError(f"{gpus} GPUs cannot be divided by TP {tp} x PP {pp} x CP {cp} = {size}")
    return Derived(int(gpus // size), f"{gpus} / (TP {tp} x PP {pp} x CP {cp})")


def num_microbatches(gbs: int, mbs: int, dp: int) -> Derived:
    """Microbatches each data parallel rank runs in one step: GBS / (MBS*DP).

    Raises:
        ValueError: when the global batch does not divide; the message names the nearest valid sizes.
    """
    unit = mbs * dp
    if unit <= 0 or gbs % unit:
        near = " or ".join(str(n) for n in nearest_multiples(gbs, unit)) if unit > 0 else "a positive batch"
        raise ValueError(f"global batch {gbs} is not a multiple of MBS {mbs} x DP {dp} = {unit}; nearest: {near}")
    return Derived(gbs // unit, f"GBS {gbs} / (MBS {mbs} x DP {dp})")


def nearest_multiples(number: int, unit: int) -> list[int]:
    """The positive multiples of ``unit`` next to ``number``, smaller first; never empty."""
    below = number // unit * unit
    return [n for n in (below, below + unit) if n > 0] or [unit]


def round_up(number: int, unit: int) -> int:
    """The smallest multiple of ``unit`` that is not below ``number``."""
    return -(-number // unit) * unit


def token_slots(width: int, gbs: int) -> Derived:
    """Token places one optimizer step holds: pack width in tokens times packs."""
    return Derived(width * gbs, f"{width:,} x {gbs}")


def equal_slot_alternatives(slots: int, lengths: Iterable[int], unit: int = 1) -> list[tuple[int, int]]:
    """(length, global batch) pairs with the same token slots per step, the batch a multiple of ``unit`` = MBS*DP."""
    pairs = []
    for length in lengths:
        batch, rest = divmod(slots, length)
        if rest == 0 and batch > 0 and batch % unit == 0:
            pairs.append((length, batch))
    return pairs


def bubble_share(pp: int, microbatches: int, vpp: int = 1) -> Share:
    """Share of a step that pipeline stages stand idle: (PP-1) / (m*VPP + PP-1)."""
    idle = pp - 1
    if vpp > 1:
        return Share(idle / (microbatches * vpp + idle), f"(PP - 1) / (microbatches {microbatches} x VPP {vpp} + PP - 1)")
    return Share(idle / (microbatches + idle), f"(PP - 1) / (microbatches {microbatches} + PP - 1)")


def pack_capacity(max_seqlen_per_rank: int, cp: int) -> Derived:
    """Tokens one online pack can hold: ``max_seqlen_per_dp_cp_rank`` times CP (global-batch packing, 0.7, documented)."""
    return Derived(max_seqlen_per_rank * cp, f"max_seqlen_per_dp_cp_rank {max_seqlen_per_rank:,} x CP {cp}")


def local_width_divisor(tp: int, cp: int, sp: bool) -> Derived:
    """Ranks one row's tokens are split over: CP, times TP with sequence parallel."""
    return Derived(cp * tp, f"CP {cp} x TP {tp}") if sp and tp > 1 else Derived(cp, f"CP {cp}")


def fp8_width_multiple(block: int, tp: int, cp: int, sp: bool) -> Derived:
    """What a fixed row width must divide by under FP8: the block (16, MXFP8 32) times the ranks that share a row.

    Source: Megatron-Core ``fp8_utils.get_fp8_align_size``; Transformer Engine ``assert_dim_for_fp8_exec``.
    """
    ranks = local_width_divisor(tp, cp, sp)
    return Derived(block * ranks.value, f"{block} x {ranks.because}")


def hierarchical_sizes(cp: int) -> list[int]:
    """Levels of ``hierarchical_context_parallel_sizes``, the inner one first: the 8 ranks of a node or pairs, where that divides CP."""
    inner = next((size for size in (8, 2) if size < cp and cp % size == 0), cp)
    return [inner, cp // inner] if inner < cp else [cp]


def product(sizes: Iterable[_Number]) -> _Number:
    """Product of numbers, a whole one where all are; 1 when there are none."""
    return math.prod(sizes)


def is_power_of_two(number: int) -> bool:
    """Whether a whole number is 1, 2, 4, 8, ..."""
    return number > 0 and number & (number - 1) == 0
