"""Plain, slow packers to compare with."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np


def first_fit(order: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """(tokens, samples) of every pack, by the definition: the first pack with room takes the sample."""
    packs: list[list[int]] = []
    for length in order:
        for pack in packs:
            if pack[0] >= length:
                pack[0] -= length
                pack[1] += 1
                break
        else:
            packs.append([capacity - length, 1])
    return [(capacity - room, samples) for room, samples in packs]


def shuffled(lengths: Sequence[int], seed: int) -> list[int]:
    """Sorted, then shuffled by numpy's legacy generator as a list."""
    order = sorted(lengths)
    np.random.RandomState(seed).shuffle(order)
    return order


def shortest_pack_first(counts: Sequence[int], capacity: int, depth: int) -> int:
    """Packs of the shortest-pack-first histogram packing of Krell et al.; ``counts[i]`` samples of length i + 1."""
    emptiest: dict[int, list[list[int]]] = {}  # room -> [packs, samples in each]
    closed = 0
    for length in range(len(counts), 0, -1):
        waiting = counts[length - 1]
        while waiting:
            room = max((room for room, packs in emptiest.items() if packs and room >= length), default=None)
            if room is None:
                room, samples, packs = capacity, 0, waiting
            else:
                packs, samples = emptiest[room].pop()
                if packs > waiting:
                    emptiest[room].append([packs - waiting, samples])
                    packs = waiting
            waiting -= packs
            if samples + 1 >= depth or room == length:
                closed += packs
            else:
                emptiest.setdefault(room - length, []).append([packs, samples + 1])
    return closed + sum(packs for group in emptiest.values() for packs, _ in group)


def some_lengths(draw: random.Random, capacity: int) -> list[int]:
    """Lengths of a random shape that fit the capacity."""
    number = draw.randint(1, 400)
    shape = draw.choice(("flat", "short", "half", "few", "multiples"))
    if shape == "flat":
        return [draw.randint(0, capacity) for _ in range(number)]
    if shape == "short":
        return [min(capacity, int(draw.lognormvariate(0, 1) * max(1, capacity / 8))) for _ in range(number)]
    if shape == "half":
        return [draw.randint(capacity // 4, capacity // 2) for _ in range(number)]
    if shape == "few":
        return [draw.choice((capacity // 2, capacity // 3, capacity // 3 + 1, 1, 0)) for _ in range(number)]
    return [min(capacity, draw.randint(0, capacity) // 4 * 4) for _ in range(number)]
