"""First-fit over a given order, in plain Python, fast enough for ten million samples.

Only what packing needs to know comes out: what each pack has left and how many samples it holds. Lengths and capacity may
be in any unit, as long as it is the same.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mbpack.plan._optional import numpy

if TYPE_CHECKING:
    from mbpack.plan._optional import IntArray

_CHUNK = 1 << 16
_NEVER = 1 << 62


def most_samples(lengths: IntArray, counts: IntArray, capacity: int) -> int:
    """The most samples that one pack can hold, empty ones aside: the shortest until it is full."""
    np = numpy()
    lengths, counts = lengths[lengths > 0], counts[lengths > 0]
    filled = np.cumsum(lengths * counts)
    kind = int(np.searchsorted(filled, capacity, side="right"))
    if kind == len(lengths):
        return int(counts.sum())
    room = capacity - (int(filled[kind - 1]) if kind else 0)
    return int(counts[:kind].sum()) + room // int(lengths[kind])


def fill_first(order: IntArray, capacity: int) -> tuple[IntArray, IntArray]:
    """The samples first-fit puts into the very first pack, and the others in their order."""
    np = numpy()
    taken = np.zeros(len(order), dtype=bool)
    room = capacity
    for place, length in enumerate(order.tolist()):
        if length <= room:
            taken[place] = True
            room -= length
            if room == 0:
                break
    return order[taken], order[~taken]


class _Crowd:
    """Nearly full packs, found by what they have left: the earliest pack with at least so much room.

    An entry is ``pack number << bits | samples``, so entries compare by pack number. For each amount of room there is a
    heap of entries; ``_top`` holds each heap's earliest entry and ``_best`` the earliest of each block of rooms, both
    scanned by ``min`` over a slice, which costs less than a tree walked in Python.
    """

    def __init__(self, limit: int) -> None:
        self._shift = max(3, limit.bit_length() // 2)
        blocks = (limit >> self._shift) + 1
        self._top = [_NEVER] * (blocks << self._shift)
        self._best = [_NEVER] * blocks
        self._heaps: list[list[int]] = [[] for _ in self._top]

    def first(self, size: int) -> tuple[int, int]:
        """The earliest entry with room for ``size``, and that room; a very large entry when there is none."""
        block = (size >> self._shift) + 1
        entry = min(self._top[size : block << self._shift])
        if block < len(self._best):
            other = min(self._best[block:])
            if other < entry:
                block = self._best.index(other, block)
                return other, self._top.index(other, block << self._shift)
        return entry, (self._top.index(entry, size) if entry != _NEVER else 0)

    def put(self, room: int, entry: int) -> None:
        """Add a pack."""
        heappush(self._heaps[room], entry)
        if entry < self._top[room]:
            self._top[room] = entry
            block = room >> self._shift
            if entry < self._best[block]:
                self._best[block] = entry

    def put_youngest(self, room: int, entry: int) -> None:
        """Add a pack that comes after all others here: every heap stays one with the entry at its end."""
        heap = self._heaps[room]
        if not heap:
            self._top[room] = entry
            block = room >> self._shift
            if self._best[block] == _NEVER:
                self._best[block] = entry
        heap.append(entry)

    def pop(self, room: int) -> None:
        """Remove the earliest pack with exactly this room."""
        heap = self._heaps[room]
        entry = heappop(heap)
        self._top[room] = heap[0] if heap else _NEVER
        block = room >> self._shift
        if self._best[block] == entry:
            start = block << self._shift
            self._best[block] = min(self._top[start : start + (1 << self._shift)])

    def items(self) -> list[tuple[int, int]]:
        """All (room, entry)."""
        return [(room, entry) for room, heap in enumerate(self._heaps) for entry in heap]

    def packs(self, bits: int) -> list[IntArray]:
        """All of them as ``room << bits | samples``, room by room."""
        np = numpy()
        mask = (1 << bits) - 1
        return [np.array(heap, dtype=np.int64) & mask | room << bits for room, heap in enumerate(self._heaps) if heap]


def first_fit(order: IntArray, capacity: int, smallest: int, threshold: int, most: int) -> tuple[IntArray, IntArray]:
    """First-fit over samples of length >= ``smallest`` >= 1 in the order given: room left and samples of each pack.

    ``most`` is a bound on the samples of a pack; ``threshold`` only decides how fast this is.

    Nearly every sample goes into one of the newest packs, so the state is split by how it is used: the four newest
    packs in the locals ``a`` to ``d`` (oldest first); older packs with at least ``threshold`` room in ``older``, a
    short list in order; older packs with less in a :class:`_Crowd`; packs no sample fits any more only in ``done``.

    A pack is one integer, ``room << bits | samples``, and a sample is ``(length << bits) - 1``: it fits when it is
    smaller than the pack, and subtracting it takes the room and counts the sample in one step.
    """
    np = numpy()
    bits = most.bit_length()
    mask = (1 << bits) - 1
    fresh = capacity << bits
    closed = smallest << bits  # below: no sample fits
    crowded = (threshold << bits) - 1  # below: belongs to the crowd
    crowd = _Crowd(threshold)
    older: list[int] = []
    numbers: list[int] = []  # pack numbers of `older`
    patience = 40  # packs in `older` before the threshold grows
    done: list[int] = []
    gate = crowded  # nothing older than `a` takes a sample that is not below
    a = b = c = d = 0
    recent = 0  # the largest of a, b, c
    opened = 0  # `d` is pack number opened - 1

    alone = order > capacity - smallest  # opens a pack that nothing else fits into
    full = order[alone].astype(np.int64)
    if len(full):
        order = order[~alone]
    del alone
    for start in range(0, len(order), _CHUNK):
        for item in ((order[start : start + _CHUNK].astype(np.int64) << bits) - 1).tolist():
            if item < gate:
                if item < crowded:
                    size = (item >> bits) + 1
                    entry, room = crowd.first(size)
                    newest = 4 if item < a else 3 if item < b else 2 if item < c else 1
                    rival = numbers[0] if numbers else opened - newest
                    if entry < rival << bits:
                        crowd.pop(room)
                        room -= size
                        entry += 1
                        if room < smallest:
                            done.append(room << bits | entry & mask)
                        else:
                            crowd.put(room, entry)
                        continue
                for place, pack in enumerate(older):  # noqa: B007
                    if item < pack:
                        break
                else:
                    place = -1
                if place >= 0:
                    left = pack - item
                    if left >= crowded:
                        older[place] = left
                    else:
                        del older[place]
                        number = numbers.pop(place)
                        if left < closed:
                            done.append(left)
                        else:
                            crowd.put(left >> bits, number << bits | left & mask)
                    if pack == gate:
                        gate = max(older) if older else crowded
                    continue
            if item < recent:
                if item < a:
                    a -= item
                elif item < b:
                    b -= item
                else:
                    c -= item
                recent = a if a > b else b
                if c > recent:
                    recent = c
            elif item < d:
                d -= item
            else:
                if a < closed:
                    done.append(a)
                elif a < crowded:
                    crowd.put_youngest(a >> bits, (opened - 4) << bits | a & mask)
                else:
                    older.append(a)
                    numbers.append(opened - 4)
                    if a > gate:
                        gate = a
                    if len(older) > patience and threshold <= capacity:
                        # Many roomy packs (lengths close to the capacity): let the crowd take more of them.
                        threshold = min(threshold + threshold // 2 + 1, capacity + 1)
                        crowded = (threshold << bits) - 1
                        grown = _Crowd(threshold)
                        for room, entry in crowd.items():
                            grown.put(room, entry)
                        crowd = grown
                        for pack, number in zip(older, numbers, strict=True):
                            if pack < crowded:
                                crowd.put(pack >> bits, number << bits | pack & mask)
                        kept = [(pack, number) for pack, number in zip(older, numbers, strict=True) if pack >= crowded]
                        older = [pack for pack, _ in kept]
                        numbers = [number for _, number in kept]
                        gate = max(older) if older else crowded
                opened += 1
                a, b, c, d = b, c, d, fresh - item
                recent = a if a > b else b
                if c > recent:
                    recent = c

    done += [a, b, c, d]
    done += older
    packs = np.concatenate([np.array(done, dtype=np.int64), *crowd.packs(bits), (capacity - full) << bits | 1])
    packs = packs[packs > 0]  # the four locals start as 0, which is no pack
    return packs >> bits, packs & mask
