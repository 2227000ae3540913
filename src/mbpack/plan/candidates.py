"""One candidate pack length: what upstream will make of the data at that length, every number exact or with its error.

Everything is a function of the length histogram and of :class:`Setup`; nothing is read or written here.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from typing import Any

from mbpack.facts import formulas, releases
from mbpack.facts.artifacts import steps_per_epoch
from mbpack.plan._optional import PlanError, numpy
from mbpack.plan.histogram import Histogram
from mbpack.plan.packing import Packs, Shuffler, first_fit_decreasing, lower_bound, shuffled_first_fit
from mbpack.plan.rows import Crash, Loss, Mapped, Schema, map_rows

#: Pack lengths tried when none are given, tokens.
DEFAULT_PACKS = (2048, 4096, 8192, 16384, 32768)
LONGEST_PACK = 1 << 21  # planning keeps a few lists of this many entries
DEFAULT_SEED = 1234  # dataset.seed of every release
#: Packing orders tried for releases that do not seed the generator.
UNSEEDED_ORDERS = 3
#: Largest difference in packs between two orders that was ever measured, as a share.
UNSEEDED_SPREAD = 0.0011
_DYNAMIC_WIDTH = 16  # without pad_to_max_length a row is as wide as the longest of its batch, rounded up to this


@dataclass(frozen=True, slots=True)
class Setup:
    """What a plan depends on besides the data.

    ``dp`` is None when nobody said; then nothing is checked against it. One of ``token_slots`` (tokens per step) and
    ``gbs`` (packs per step) may be given; with neither, one pack of the longest candidate per rank is taken.
    ``multiple`` replaces the padding multiple that follows from the topology; ``max_single`` caps rows below the pack.
    """

    version: releases.Version = field(default_factory=lambda: releases.version_of(releases.DEFAULT))
    schema: Schema = "chat"
    seed: int = DEFAULT_SEED
    tp: int = 1
    pp: int = 1
    cp: int = 1
    eval_cp: int | None = None
    sp: bool = False
    dp: int | None = None
    token_slots: int | None = None
    gbs: int | None = None
    max_single: int | None = None
    multiple: int | None = None

    @property
    def seeded(self) -> bool:
        """Whether the release packs with a seeded generator, which makes every count exact."""
        return self.version.release >= releases.R06

    def pad_multiple(self) -> formulas.Derived:
        """The padding multiple in tokens, with its derivation."""
        if self.multiple is not None:
            return formulas.Derived(self.multiple, "given")
        return formulas.pad_multiple(self.tp, self.cp, self.sp, self.eval_cp)

    def check(self, packs: Sequence[int]) -> None:
        """Refuse settings no run could have.

        Raises:
            PlanError: naming the value.
        """
        if not packs:
            raise PlanError("no pack length given: --pack 2048,4096")
        for name, value in (
            ("pack length", min(packs)),
            ("TP", self.tp),
            ("PP", self.pp),
            ("CP", self.cp),
            ("evaluation CP", self.eval_cp),
            ("DP", self.dp),
            ("token slots", self.token_slots),
            ("global batch", self.gbs),
            ("longest single row", self.max_single),
            ("padding multiple", self.multiple),
        ):
            if value is not None and value < 1:
                raise PlanError(f"{name} must be at least 1, found {value}")
        if max(packs) > LONGEST_PACK:
            raise PlanError(f"pack length {max(packs):,}: at most {LONGEST_PACK:,}")
        if self.token_slots is not None and self.gbs is not None:
            raise PlanError("give --token-slots or --gbs, not both: token slots = pack length x global batch")
        if not 0 <= self.seed < 1 << 32:
            raise PlanError(f"the seed must be between 0 and 4294967295, found {self.seed}")


@dataclass(frozen=True, slots=True)
class Batch:
    """The global batch of a candidate: packs per step, token slots per step, packs per rank, and what had to give."""

    gbs: int
    token_slots: int
    microbatches: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Packed:
    """The counts of a candidate whose rows can be packed; sizes in tokens, shares in percent.

    ``packs_range`` is (packs, packs) where the order is seeded, else the smallest and largest count that was seen.
    """

    packs: int
    packs_range: tuple[int, int]
    metadata: dict[str, int | float]
    ffd_packs: int
    lower_bound: int
    fill: float
    real_fill: float
    padding: float
    alignment: float
    samples_mean: float
    samples_max: int
    boundary_width: int
    dynamic_width: float
    attention_pairs: int
    attention_share: float
    steps_per_epoch: int
    steps_num_epochs: int | None


@dataclass(frozen=True, slots=True)
class Notice:
    """A finding in the doctor's words: the rule it belongs to if there is one, error or warning, one line."""

    slug: str | None
    severity: str
    message: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One pack length. ``packed`` is None when upstream fails and no rows can be taken out to mend it."""

    pack_size: int
    row_cap: int
    seed: int
    multiple: formulas.Derived
    batch: Batch
    rows: int
    tokens: int
    truncated: Loss
    dropped: Loss
    packed: Packed | None
    crash: Crash | None
    warnings: tuple[Notice, ...]

    @property
    def kept_share(self) -> float:
        """Percent of the stored tokens that reach training (rows that make preparation fail count as lost)."""
        lost = self.truncated.tokens + self.dropped.tokens + (self.crash.tokens if self.crash else 0)
        return 100.0 * max(0.0, 1 - lost / self.tokens) if self.tokens else 100.0

    @property
    def usable(self) -> bool:
        """Whether a run with this candidate starts: preparation works and one step's packs exist."""
        return self.crash is None and self.packed is not None and self.packed.packs >= self.batch.gbs


def evaluate(
    histogram: Histogram,
    packs: Sequence[int],
    setup: Setup,
    progress: Callable[[int], None] | None = None,
    jobs: int = 1,
) -> list[Candidate]:
    """Every candidate, in the order given.

    ``progress`` is called with each pack length: before it is packed, or with several ``jobs`` (processes) afterwards.

    Raises:
        PlanError: for settings that contradict each other, or no rows.
    """
    setup.check(packs)
    if histogram.rows == 0:
        raise PlanError("no rows to plan with: the input holds no lengths")
    rows = histogram.stored()
    slots = setup.token_slots
    if slots is None and setup.gbs is None:
        slots = max(packs) * (setup.dp or 1)
    say = progress or (lambda _: None)
    if jobs > 1:
        found = {}
        tasks = [(rows, size, setup, slots) for size in sorted(set(packs))]  # the shortest take longest: they go first
        with get_context("spawn").Pool(min(jobs, len(tasks)), ignore_interrupts) as pool:
            for candidate in pool.imap_unordered(_task, tasks):
                say(candidate.pack_size)
                found[candidate.pack_size] = candidate
        return [found[size] for size in packs]
    made = []
    for size in packs:
        say(size)
        made.append(_candidate(rows, size, setup, slots))
    _shuffler.cache_clear()  # a shuffle of ten million rows holds 40 MB
    return made


def ignore_interrupts() -> None:
    """For worker processes: Ctrl-C ends the command, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _task(task: tuple[Histogram, int, Setup, int | None]) -> Candidate:
    return _candidate(*task)


_shuffler = lru_cache(maxsize=UNSEEDED_ORDERS)(Shuffler)


def choose_batch(pack_size: int, setup: Setup, slots: int | None) -> Batch:
    """The packs per step: what was asked for, or the valid number nearest to the token slots asked for."""
    unit = setup.dp or 1
    if setup.gbs is not None:
        gbs, note = setup.gbs, ""
        if gbs % unit:
            near = " or ".join(str(number) for number in formulas.nearest_multiples(gbs, unit))
            note = f"gbs {gbs} is not a multiple of DP {unit}: {near}"
    else:
        assert slots is not None
        gbs = max(unit, (slots + pack_size * unit // 2) // (pack_size * unit) * unit)
        note = ""
        if gbs * pack_size != slots:
            note = f"{gbs * pack_size:,} slots: gbs must be a multiple of DP {unit}" if setup.dp else ""
            note = note or f"{gbs * pack_size:,} slots: {slots:,} is no multiple of {pack_size:,}"
    microbatches = None if setup.dp is None or gbs % unit else gbs // unit
    return Batch(gbs, gbs * pack_size, microbatches, note)


def _candidate(rows: Histogram, pack_size: int, setup: Setup, slots: int | None) -> Candidate:
    multiple = setup.pad_multiple()
    row_cap = min(pack_size, setup.max_single) if setup.max_single is not None else pack_size
    mapped = map_rows(rows, setup.version.release, setup.schema, row_cap, multiple.value, pack_size)
    batch = choose_batch(pack_size, setup, slots)
    packed = None
    if len(mapped.lengths) and (mapped.crash is None or mapped.crash.without):
        orders = 1 if setup.seeded else UNSEEDED_ORDERS
        shufflers = [_shuffler((setup.seed + number) % (1 << 32)) for number in range(orders)]
        packed = pack_mapped(mapped, pack_size, batch, setup, shufflers)
    return Candidate(
        pack_size=pack_size,
        row_cap=row_cap,
        seed=setup.seed,
        multiple=multiple,
        batch=batch,
        rows=rows.rows,
        tokens=rows.tokens,
        truncated=mapped.truncated,
        dropped=mapped.dropped,
        packed=packed,
        crash=mapped.crash,
        warnings=tuple(_warnings(mapped, packed, pack_size, rows, multiple.value, batch, setup)),
    )


def pack_mapped(mapped: Mapped, pack_size: int, batch: Batch, setup: Setup, shufflers: Sequence[Shuffler]) -> Packed:
    """Pack the samples in one order per shuffler (the first counts, the others show the spread)."""
    np = numpy()
    lengths, counts = mapped.lengths, mapped.counts
    made = [shuffled_first_fit(lengths, counts, pack_size, shuffler) for shuffler in shufflers]
    first = made[0]
    packs = first.count
    seen = [one.count for one in made]
    capacity = packs * pack_size
    used = first.tokens
    # plain integers: long rows in large numbers overflow 64 bits
    pairs = sum(number * length * (length + 1) // 2 for length, number in zip(lengths.tolist(), counts.tolist(), strict=True))
    gbs = batch.gbs
    return Packed(
        packs=packs,
        packs_range=(min(seen), max(seen)),
        metadata=first.metadata(mapped.longest),
        ffd_packs=first_fit_decreasing(lengths, counts, pack_size).count,
        lower_bound=lower_bound(lengths, counts, pack_size),
        fill=100.0 * used / capacity,
        real_fill=100.0 * mapped.real_tokens / capacity,
        padding=100.0 * (capacity - used) / capacity,
        alignment=100.0 * mapped.alignment_tokens / capacity,
        samples_mean=mapped.samples / packs,
        samples_max=first.max_samples,
        boundary_width=first.max_samples + 2,
        dynamic_width=_dynamic_width(first, batch.microbatches or gbs, np),
        attention_pairs=pairs,
        attention_share=100.0 * pairs / (packs * pack_size * (pack_size + 1) / 2),
        steps_per_epoch=steps_per_epoch(packs, gbs, keeps_last=False),
        steps_num_epochs=steps_per_epoch(packs, gbs, keeps_last=True) if setup.version.release >= releases.R06 else None,
    )


def _dynamic_width(packs: Packs, per_rank: int, np: Any) -> float:
    """Expected row width without ``pad_to_max_length``: the longest of a rank's packs, rounded up to 16.

    Estimate: a rank's packs are taken as drawn at random.
    """
    order = np.argsort(packs.used)
    used = packs.used[order]
    share = np.cumsum(packs.times[order]) / packs.count
    width = np.minimum(packs.capacity, -(-used // _DYNAMIC_WIDTH) * _DYNAMIC_WIDTH)
    weight = np.diff(np.concatenate([[0.0], share**per_rank]))
    return float((width * weight).sum())


def _warnings(
    mapped: Mapped, packed: Packed | None, pack_size: int, rows: Histogram, multiple: int, batch: Batch, setup: Setup
) -> list[Notice]:
    found = []
    if mapped.crash is not None:
        found.append(Notice(mapped.crash.slug, "error", f"crash: {mapped.crash.message}"))
    if mapped.dropped.rows:
        share = 100 * mapped.dropped.tokens / max(1, rows.tokens)
        if mapped.dropped.tokens:
            text = f"{mapped.dropped.rows:,} rows with {share:.1f}% of the tokens are over the row cap and dropped"
            severity = "error" if share >= 1 else "warning"
            found.append(Notice("data/chat-overlong-index-error", severity, f"silent: {text}"))
        else:
            found.append(Notice(None, "warning", f"silent: {mapped.dropped.rows:,} empty rows are dropped"))
    share = 100 * mapped.truncated.tokens / max(1, rows.tokens)
    if share >= 1:
        text = f"truncation cuts {share:.1f}% of the tokens off {mapped.truncated.rows:,} rows"
        slug = "data/chat-overlong-index-error" if setup.schema == "chat" else None
        found.append(Notice(slug, "warning", f"silent: {text}"))
    if mapped.crash is not None and not mapped.crash.without:
        return found
    if multiple > 1 and pack_size % multiple:
        text = f"pack length {pack_size:,} is no multiple of {multiple}: the end of each row is misaligned"
        found.append(Notice("align/pack-size-multiple", "error" if setup.cp > 1 else "warning", f"silent: {text}"))
    if mapped.misaligned:
        text = f"{mapped.misaligned:,} samples at the row cap are no multiple of {multiple}"
        found.append(Notice("align/pack-size-multiple", "error" if setup.cp > 1 else "warning", f"silent: {text}"))
    if setup.dp is not None and batch.microbatches is None:
        found.append(Notice("gbs/divisible", "error", f"crash: {batch.note}"))
    if packed is not None and packed.packs < batch.gbs:
        text = f"fewer packs ({packed.packs:,}) than one global batch of {batch.gbs:,}"
        found.append(Notice("gbs/not-enough-rows", "error", f"crash: {text}; lower the batch or the pack length"))
    return found
