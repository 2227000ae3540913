"""Packing while training, simulated over the histogram: in-batch, Energon, global-batch, dynamic context parallelism.

The order of samples is drawn from the histogram, so results are estimates; each carries the standard error of the mean
over the steps or blocks simulated. Lengths are tokens; shares are percent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mbpack.facts import formulas
from mbpack.facts.buffers import buffer_bytes, buffer_for
from mbpack.plan._optional import PlanError, numpy
from mbpack.plan.histogram import Histogram
from mbpack.plan.packing import first_fit_decreasing

if TYPE_CHECKING:
    from mbpack.plan._optional import IntArray

#: Buffers tried for Energon, samples.
BUFFERS = (8, 16, 32, 64, 128, 256)
_STEPS = 400
_SAMPLES = 60_000  # drawn per simulation at most


@dataclass(frozen=True, slots=True)
class Estimate:
    """A simulated mean and the standard error of it."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class InBatch:
    """In-batch packing: each rank concatenates its MBS rows, every row rounded up to the multiple.

    ``imbalance`` is the fullest rank's tokens over the mean rank's: the step waits for it. ``effective`` = token
    efficiency / imbalance, percent. ``width_worst`` is MBS rows of the longest kind: what memory must hold at worst.
    """

    row_cap: int
    mbs: int
    gbs: int
    dp: int
    multiple: int
    token_efficiency: Estimate
    imbalance: Estimate
    effective: float
    width_median: int
    width_p99: int
    width_worst: int


@dataclass(frozen=True, slots=True)
class EnergonFill:
    """Fill at one buffer size, and the bytes one worker holds for it."""

    buffer: int
    fill: Estimate
    buffer_bytes: int


@dataclass(frozen=True, slots=True)
class Energon:
    """Native Energon packing: first-fit-decreasing inside disjoint buffers (0.7, Qwen-VL).

    ``limit`` is the fill of first-fit-decreasing over everything; ``buffer_95`` about the buffer that reaches 95%.
    Samples over ``seq_length`` are logged and skipped: ``skipped_share`` of the rows. ``samples_to_fatal`` is the
    expected number of samples until 100 in a row are skipped and the loader stops (None: practically never).
    """

    seq_length: int
    multiple: int
    fills: tuple[EnergonFill, ...]
    limit: float
    buffer_95: int
    skipped_rows: int
    skipped_tokens: int
    skipped_share: float
    samples_to_fatal: float | None


@dataclass(frozen=True, slots=True)
class GlobalBatch:
    """Global-batch packing with ``dp_balanced``: next-fit in stream order, packs a multiple of DP (0.7, documented).

    ``microbatches`` per step and rank; ``imbalance`` as in :class:`InBatch`; ``overlong`` rows no pack can hold.
    """

    capacity: int
    gbs: int
    dp: int
    multiple: int
    microbatches: Estimate
    microbatches_max: int
    fill: Estimate
    imbalance: Estimate
    overlong: int


@dataclass(frozen=True, slots=True)
class DynamicCP:
    """Dynamic context parallelism (nightly, documented): which share of the rows runs on how many ranks.

    ``groups`` maps the ranks of a group to the percent of rows and of tokens that run there; ``microbatches`` and
    ``imbalance`` come from a plain longest-first schedule, the real one also trims and widens groups.
    """

    max_seqlen_per_rank: int
    pool: int
    multiple: int
    groups: dict[int, tuple[float, float]]
    microbatches: Estimate
    imbalance: Estimate
    overlong: int


def _aligned(lengths: Any, multiple: int) -> Any:
    return -(-lengths // multiple) * multiple


def _mean(values: Any) -> Estimate:
    np = numpy()
    values = np.asarray(values, dtype=float)
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
    return Estimate(float(values.mean()), error)


def _draw(histogram: Histogram, number: int, seed: int) -> IntArray:
    """``number`` row lengths in random order, with the shares of the histogram."""
    np = numpy()
    generator = np.random.default_rng(seed)
    edges = np.cumsum(histogram.counts)
    places = np.searchsorted(edges, generator.integers(0, edges[-1], number), side="right")
    drawn: IntArray = histogram.lengths[places]
    return drawn


def _check_batch(gbs: int, mbs: int, dp: int) -> None:
    try:
        formulas.num_microbatches(gbs, mbs, dp)
    except ValueError as error:
        raise PlanError(str(error)) from None


def in_batch(histogram: Histogram, row_cap: int, mbs: int, gbs: int, dp: int, multiple: int = 1, seed: int = 0) -> InBatch:
    """Simulate in-batch packing; rows are cut at ``row_cap``.

    Raises:
        PlanError: when the global batch does not divide.
    """
    np = numpy()
    _check_batch(gbs, mbs, dp)
    rows = histogram.stored()
    steps = max(20, min(_STEPS, _SAMPLES // gbs))
    real = np.minimum(_draw(rows, steps * gbs, seed), row_cap)
    padded = _aligned(real, multiple)
    ranks = padded.reshape(steps, dp, gbs // dp).sum(axis=2)
    imbalance = _mean(ranks.max(axis=1) / np.maximum(ranks.mean(axis=1), 1))
    efficiency = _mean(100 * real.reshape(steps, -1).sum(axis=1) / np.maximum(ranks.sum(axis=1), 1))
    widths = padded.reshape(-1, mbs).sum(axis=1)
    longest = int(_aligned(min(rows.longest, row_cap), multiple))
    return InBatch(
        row_cap,
        mbs,
        gbs,
        dp,
        multiple,
        efficiency,
        imbalance,
        efficiency.value / imbalance.value if imbalance.value else 0.0,  # rows without a token have no time to lose
        int(np.percentile(widths, 50)),
        int(np.percentile(widths, 99)),
        mbs * longest,
    )


def energon(
    histogram: Histogram,
    seq_length: int,
    multiple: int = 1,
    buffers: Sequence[int] = BUFFERS,
    visual_tokens: int = 0,
    patch: int = 14,
    seed: int = 0,
) -> Energon:
    """Simulate native Energon packing for several buffers.

    Args:
        histogram: row lengths, visual tokens included.
        seq_length: pack capacity, tokens.
        multiple: what each sample is rounded up to.
        buffers: ``packing_buffer_size`` values, samples.
        visual_tokens: merged visual tokens of a sample on average; they dominate the memory of the buffer.
        patch: patch size of the vision tower, 14 or 16.
    """
    rows = histogram.stored()
    fits = _aligned(rows.lengths, multiple) <= seq_length
    kept = Histogram(rows.lengths[fits], rows.counts[fits])
    if not kept.rows:
        raise PlanError(f"no row fits seq_length {seq_length:,}")
    skipped_rows = rows.rows - kept.rows
    share = skipped_rows / rows.rows
    everything = Histogram.of_counts(_aligned(kept.lengths, multiple), kept.counts)
    fewest = first_fit_decreasing(everything.lengths, everything.counts, seq_length).count
    limit = 100 * kept.tokens / (fewest * seq_length)
    fills = []
    for buffer in buffers:
        blocks = max(8, min(4 * _STEPS, _SAMPLES // buffer))
        real = _draw(kept, blocks * buffer, seed).reshape(blocks, buffer)
        packs = _blockwise_first_fit_decreasing(_aligned(real, multiple), seq_length)
        # mean of the ratio: total tokens over total slots, error from the spread between blocks
        ratio = 100 * real.sum() / (packs.sum() * seq_length)
        spread = (100 * real.sum(axis=1) / seq_length - ratio * packs).std(ddof=1) / packs.mean() / math.sqrt(blocks)
        held = buffer_bytes(buffer, round(kept.mean), visual_tokens, patch, workers=1, ranks=1).value
        fills.append(EnergonFill(buffer, Estimate(float(ratio), float(spread)), held))
    return Energon(
        seq_length,
        multiple,
        tuple(fills),
        limit,
        buffer_for(seq_length, max(1, round(kept.mean))).value,
        skipped_rows,
        rows.tokens - kept.tokens,
        100 * share,
        _until_run(share, 100),
    )


def _until_run(share: float, run: int) -> float | None:
    """Expected samples until ``run`` of them in a row are of a kind with this share; None beyond 1e12."""
    if share <= 0:
        return None
    if share >= 1:
        return float(run)
    try:
        expected = (share**-run - 1) / (1 - share)
    except OverflowError:
        return None
    return expected if expected < 1e12 else None


def _blockwise_first_fit_decreasing(blocks: Any, capacity: int) -> Any:
    """Packs of first-fit-decreasing in each block, all blocks at once; ``blocks`` has shape (blocks, samples)."""
    np = numpy()
    ordered = -np.sort(-blocks, axis=1)
    number, samples = ordered.shape
    room = np.full((number, samples), capacity, dtype=np.int64)
    opened = np.zeros(number, dtype=np.int64)
    every = np.arange(number)
    most = 1  # columns of `room` that any block has opened, plus one
    for place in range(samples):
        size = ordered[:, place]
        chosen = (room[:, :most] >= size[:, None]).argmax(axis=1)
        room[every, chosen] -= size
        opened = np.maximum(opened, chosen + 1)
        most = min(samples, int(opened.max()) + 1)
    return opened


def global_batch(histogram: Histogram, capacity: int, gbs: int, dp: int, multiple: int = 1, seed: int = 0) -> GlobalBatch:
    """Simulate ``dp_balanced``: samples in stream order into packs of ``capacity`` tokens, next-fit.

    The number of packs is raised to a multiple of DP by giving samples from the last packs a pack of their own.
    Microbatch i of rank j is pack i*DP + j.
    """
    np = numpy()
    _check_batch(gbs, 1, dp)
    rows = histogram.stored()
    sizes = _aligned(rows.lengths, multiple)
    fits = sizes <= capacity
    kept = Histogram(rows.lengths[fits], rows.counts[fits])
    if not kept.rows:
        raise PlanError(f"no row fits a pack of {capacity:,}")
    steps = max(20, min(_STEPS, _SAMPLES // gbs))
    drawn = _draw(kept, steps * gbs, seed).reshape(steps, gbs)
    microbatches, fills, imbalances = [], [], []
    for step in drawn:
        packs = _next_fit(_aligned(step, multiple).tolist(), capacity)
        _spread(packs, dp)
        loads = np.array([sum(pack) for pack in packs]).reshape(-1, dp).sum(axis=0)
        microbatches.append(len(packs) // dp)
        fills.append(100 * step.sum() / (len(packs) * capacity))
        imbalances.append(loads.max() / max(loads.mean(), 1))
    return GlobalBatch(
        capacity,
        gbs,
        dp,
        multiple,
        _mean(microbatches),
        max(microbatches),
        _mean(fills),
        _mean(imbalances),
        rows.rows - kept.rows,
    )


def _next_fit(sizes: list[int], capacity: int) -> list[list[int]]:
    packs: list[list[int]] = []
    room = -1
    for size in sizes:
        if size > room:
            packs.append([])
            room = capacity
        packs[-1].append(size)
        room -= size
    return packs


def _spread(packs: list[list[int]], dp: int) -> None:
    """Split samples off the last packs until the number of packs is a multiple of DP."""
    place = len(packs) - 1
    while len(packs) % dp and place >= 0:
        if len(packs[place]) > 1:
            packs.append([packs[place].pop()])
        else:
            place -= 1


def dynamic_cp(
    histogram: Histogram, max_seqlen_per_rank: int, gbs: int, pool: int, multiple: int = 1, seed: int = 0
) -> DynamicCP:
    """Which rows run on how many ranks, and a longest-first schedule of them; ``pool`` = DP*CP ranks."""
    np = numpy()
    if not formulas.is_power_of_two(pool) or pool < 2:
        raise PlanError(f"dynamic context parallelism needs DP*CP to be a power of two above 1, found {pool}")
    rows = histogram.stored()
    needed = _ranks_needed(rows.lengths, max_seqlen_per_rank)
    fits = needed <= pool
    groups = {
        int(size): (
            100 * int(rows.counts[needed == size].sum()) / rows.rows,
            100 * int((rows.counts * rows.lengths)[needed == size].sum()) / max(1, rows.tokens),
        )
        for size in np.unique(needed[fits])
    }
    kept = Histogram(rows.lengths[fits], rows.counts[fits])
    if not kept.rows:
        raise PlanError(f"no row fits {pool} ranks of {max_seqlen_per_rank:,} tokens")
    steps = max(20, min(_STEPS // 8, _SAMPLES // gbs))
    microbatches, imbalances = [], []
    for step in _draw(kept, steps * gbs, seed).reshape(steps, gbs):
        number, imbalance = _longest_first(sorted(step.tolist(), reverse=True), max_seqlen_per_rank, pool, multiple)
        microbatches.append(number)
        imbalances.append(imbalance)
    return DynamicCP(max_seqlen_per_rank, pool, multiple, groups, _mean(microbatches), _mean(imbalances), rows.rows - kept.rows)


def _ranks_needed(lengths: Any, per_rank: int) -> Any:
    """The smallest power of two of ranks that holds a row of each length."""
    np = numpy()
    parts = np.maximum(1, -(-lengths // per_rank))
    return 1 << np.ceil(np.log2(parts)).astype(np.int64)


def _longest_first(sizes: list[int], per_rank: int, pool: int, multiple: int) -> tuple[int, float]:
    """(microbatches, work of the busiest rank over the mean) when rows are placed longest first.

    A row joins the least busy group of its size that has room; else it takes free ranks; else a microbatch is complete.
    Work counts a row's squared length over its ranks.
    """
    np = numpy()
    waiting = sizes
    number = 0
    total = np.zeros(pool)
    while waiting:
        number += 1
        free = pool
        groups: list[list[float]] = []  # [ranks, tokens placed, work]
        later = []
        for size in waiting:
            parts = -(-size // per_rank)
            ranks = 1 << max(0, parts - 1).bit_length()
            aligned = -(-size // multiple) * multiple
            fitting = [g for g in groups if g[0] == ranks and g[1] + aligned <= per_rank * ranks]
            group = min(fitting, key=lambda g: g[2], default=None)
            if free >= ranks and (group is None or group[2] > 0):
                group = [ranks, 0, 0.0]
                groups.append(group)
                free -= ranks
            if group is None:
                later.append(size)
                continue
            group[1] += aligned
            group[2] += size * size / ranks
        work = np.concatenate([np.full(int(ranks), done) for ranks, _, done in groups] + [np.zeros(free)])
        total += np.sort(work)[::-1]  # ranks meet after every microbatch: the busiest sets the pace
        waiting = later
    return number, float(total[0] / max(total.mean(), 1e-9))
