"""How many packs: the shuffled first-fit that Megatron-Bridge runs, first-fit-decreasing, and a lower bound.

All three work on a histogram of runtime lengths: ``lengths`` (tokens, increasing) and ``counts`` (samples of each
length), both one-dimensional integer arrays of equal shape. Capacity and lengths are tokens; a pack may be filled to
exactly its capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbpack.facts.artifacts import METADATA_KEYS
from mbpack.plan._optional import PlanError, numpy
from mbpack.plan.first_fit import fill_first, first_fit, most_samples

if TYPE_CHECKING:
    from mbpack.plan._optional import IntArray

_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Packs:
    """Packs as three arrays of equal shape; entry i stands for ``times[i]`` packs that look alike. The order is free.

    ``used`` are runtime tokens in the pack (alignment padding inside samples included), ``samples`` its sample count.
    """

    capacity: int
    used: IntArray
    samples: IntArray
    times: IntArray

    @property
    def count(self) -> int:
        """Number of packs."""
        return int(self.times.sum())

    @property
    def tokens(self) -> int:
        """Runtime tokens in all packs."""
        return int((self.used * self.times).sum())

    @property
    def max_samples(self) -> int:
        """Samples in the pack that holds the most."""
        return int(self.samples.max())

    def metadata(self, longest: int) -> dict[str, int | float]:
        """The six numbers that upstream writes for a split; ``longest`` is the longest runtime length in tokens.

        Source: ``create_packing_strategy`` (``data/datasets/packing_utils.py`` up to 0.5,
        ``data/packing/algorithms.py`` from 0.6), rounding included.
        """
        packs = self.count
        samples = int((self.samples * self.times).sum())
        values = (
            longest,
            self.max_samples,
            round(samples / packs, 2),
            round(self.tokens / packs / self.capacity * 100, 2),
            self.capacity,
            int(self.used.min()),
        )
        return dict(zip(METADATA_KEYS, values, strict=True))


class Shuffler:
    """The order in which upstream packs: positions of the sorted samples, shuffled by numpy's legacy generator.

    One shuffle serves every candidate with the same number of samples, because the generator never looks at the values.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._places: IntArray | None = None

    def order(self, lengths: IntArray, counts: IntArray) -> IntArray:
        """Every sample's length in packing order, shape (samples,), int32 or int64."""
        np = numpy()
        total = int(counts.sum())
        if self._places is None or len(self._places) != total:
            places = np.arange(total, dtype=np.int32 if total < 1 << 31 else np.int64)
            np.random.RandomState(self.seed).shuffle(places)
            self._places = places
        kind = np.int32 if len(lengths) == 0 or lengths[-1] < 1 << 31 else np.int64
        order: IntArray = np.repeat(lengths.astype(kind), counts)[self._places]
        return order


def shuffled_first_fit(lengths: IntArray, counts: IntArray, capacity: int, shuffler: Shuffler) -> Packs:
    """Pack as Megatron-Bridge does: shuffle, then put each sample into the first pack with room.

    Exact for 0.6 and later, where the generator is seeded with ``dataset.seed``; up to 0.5 it is not seeded and this is
    one of the results that can come out.

    Source: ``first_fit_shuffle`` (all releases; 0.3 scans linearly, later releases use a segment tree, same result).

    Raises:
        PlanError: when there is nothing to pack, or a sample is longer than the capacity (upstream fails as well).
    """
    np = numpy()
    lengths, counts = _checked(lengths, counts, capacity)
    order = shuffler.order(lengths, counts)
    zeros = int(counts[0]) if lengths[0] == 0 else 0
    used, samples = [], []
    if zeros:
        # Upstream puts an empty sample into the very first pack, wherever it comes in the order.
        first, order = fill_first(order[order > 0], capacity)
        used, samples = [int(first.sum())], [len(first) + zeros]
    if len(order):
        unit = int(np.gcd.reduce(lengths))
        smallest = int(lengths[lengths > 0][0]) // unit
        threshold = max(int(lengths[np.searchsorted(np.cumsum(counts), len(order) // 32)]) // unit, smallest) + 1
        most = most_samples(lengths // unit, counts, capacity // unit)
        free, held = first_fit(order // unit, capacity // unit, smallest, threshold, most)
        used = np.concatenate([np.array(used, dtype=np.int64), (capacity // unit - free) * unit])
        samples = np.concatenate([np.array(samples, dtype=np.int64), held])
    used = np.asarray(used, dtype=np.int64)
    return Packs(capacity, used, np.asarray(samples, dtype=np.int64), np.ones(len(used), dtype=np.int64))


def first_fit_decreasing(lengths: IntArray, counts: IntArray, capacity: int, max_samples: int | None = None) -> Packs:
    """First-fit-decreasing, exact, from the histogram: the cost depends on the distinct lengths, not on the samples.

    First-fit over a decreasing order fills one pack after the other with the longest sample that still fits; the same
    filling repeats as long as every length it uses is in supply, so identical packs are emitted at once.
    ``max_samples`` limits the samples of a pack (empty ones do not count): with it this is the longest-pack-first
    histogram packing of Krell et al., whose published results it reproduces.

    Raises:
        PlanError: as :func:`shuffled_first_fit`.
    """
    np = numpy()
    lengths, counts = _checked(lengths, counts, capacity)
    zeros = int(counts[0]) if lengths[0] == 0 else 0
    if zeros:
        lengths, counts = lengths[1:], counts[1:]
    used, samples, times = _decreasing(lengths, counts, capacity, max_samples or _NEVER)
    if zeros and not used:
        used, samples, times = [0], [zeros], [1]
    elif zeros:  # zero-length samples come last and go into the first pack: split it off from its likes
        used, samples, times = [used[0], *used], [samples[0] + zeros, *samples], [1, times[0] - 1, *times[1:]]
    keep = np.array(times, dtype=np.int64) > 0
    return Packs(
        capacity,
        np.array(used, dtype=np.int64)[keep],
        np.array(samples, dtype=np.int64)[keep],
        np.array(times, dtype=np.int64)[keep],
    )


def lower_bound(lengths: IntArray, counts: IntArray, capacity: int) -> int:
    """Packs that no packer can go below: the bound L2 of Martello and Toth, over all thresholds at once."""
    np = numpy()
    lengths, counts = _checked(lengths, counts, capacity)
    many = np.zeros(capacity + 2, dtype=np.int64)  # many[x]: samples shorter than x; weight[x]: their tokens
    weight = np.zeros(capacity + 2, dtype=np.int64)
    np.add.at(many, lengths + 1, counts)
    np.add.at(weight, lengths + 1, counts * lengths)
    many, weight = np.cumsum(many), np.cumsum(weight)
    half = capacity // 2
    small = np.arange(half + 1)
    alone = many[capacity + 1] - many[capacity - small + 1]
    large = many[capacity - small + 1] - many[half + 1]
    room = large * capacity - (weight[capacity - small + 1] - weight[half + 1])
    rest = weight[half + 1] - weight[small] - room
    return max(1, int((alone + large + np.maximum(0, -(-rest // capacity))).max()))


def _checked(lengths: IntArray, counts: IntArray, capacity: int) -> tuple[IntArray, IntArray]:
    """The non-empty classes of a histogram that can be packed."""
    keep = counts > 0
    lengths, counts = lengths[keep], counts[keep]
    if len(lengths) == 0:
        raise PlanError("there are no samples to pack")
    if lengths[-1] > capacity:
        raise PlanError(f"a sample of {int(lengths[-1]):,} tokens does not fit a pack of {capacity:,}")
    return lengths, counts


def _decreasing(lengths: IntArray, counts: IntArray, capacity: int, most: int) -> tuple[list[int], list[int], list[int]]:
    """Tokens, samples and multiplicity of the packs of first-fit-decreasing; lengths >= 1, ``most`` samples a pack."""
    np = numpy()
    size: list[int] = lengths[::-1].tolist()
    left: list[int] = counts[::-1].tolist()
    kinds = len(size)
    # fits[room]: the longest length class that fits; alive[i]: a class at or after i that may still have samples
    fits: list[int] = (kinds - np.searchsorted(lengths, np.arange(capacity + 1), side="right")).tolist()
    alive = list(range(kinds + 1))
    used: list[int] = []
    samples: list[int] = []
    times: list[int] = []
    head = 0
    while True:
        while alive[head] != head:
            head = alive[head]
        if head == kinds:
            return used, samples, times
        room, places = capacity, most
        repeat = _NEVER
        filling: list[tuple[int, int]] = []
        kind = head
        while kind < kinds and places:
            supply = left[kind]
            take = min(room // size[kind], supply, places)
            filling.append((kind, take))
            places -= take
            room -= take * size[kind]
            repeat = min(repeat, supply // take)
            kind = max(fits[room], kind + 1)
            root = kind
            while alive[root] != root:
                root = alive[root]
            while alive[kind] != root:  # path compression: later searches jump over what is used up
                alive[kind], kind = root, alive[kind]
            kind = root
        for kind, take in filling:
            left[kind] -= repeat * take
            if not left[kind]:
                alive[kind] = kind + 1
        used.append(capacity - room)
        samples.append(sum(take for _, take in filling))
        times.append(repeat)
