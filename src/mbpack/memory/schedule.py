"""The order in which a pipeline stage runs its forward and backward passes, and what is alive at each of them.

Sources: Megatron-Core `pipeline_parallel/schedules.py`, `forward_backward_pipelining_without_interleaving`,
`forward_backward_pipelining_with_interleaving`, `get_pp_rank_microbatches`, `get_schedule_table` (the same in 0.3 to 0.6;
microbatches go through the chunks in groups of as many as there are stages).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class Event(NamedTuple):
    """A forward or backward pass of a chunk; `alive`: how often each chunk is kept when it ends (forward: with it) or
    begins (backward: with it)."""

    forward: bool
    chunk: int
    alive: tuple[int, ...]


def _table(microbatches: int, chunks: int, group: int) -> list[tuple[int, int]]:
    """(microbatch, chunk) in the order of forward passes."""
    found = []
    for start in range(0, microbatches, group):
        for chunk in range(chunks):
            found += [(microbatch, chunk) for microbatch in range(start, min(microbatches, start + group))]
    return found


def warm_up(stage: int, stages: int, chunks: int, microbatches: int) -> int:
    """Forward passes before the first backward pass of a stage.

    One more starts where expert communication overlaps with it, layer by layer against the backward pass of the one before:
    what both keep is that of one microbatch, as the recordings show.
    """
    if chunks == 1:
        return min(stages - stage - 1, microbatches)
    return min((stages - stage - 1) * 2 + (chunks - 1) * stages, microbatches * chunks)


@lru_cache(maxsize=4096)
def events(stage: int, stages: int, chunks: int, microbatches: int) -> tuple[Event, ...]:
    """Every event of a stage, microbatches beyond those that change nothing left out."""
    most = min(microbatches, 3 * stages + 2 if chunks == 1 else 4 * stages)
    order = _table(most, chunks, stages)
    first = warm_up(stage, stages, chunks, most)
    return tuple(_walk(order, first, chunks))


def _walk(order: list[tuple[int, int]], first: int, chunks: int) -> Iterator[Event]:
    alive = [0] * chunks
    backward = [(microbatch, chunks - 1 - chunk) for microbatch, chunk in order]
    total, done = len(order), 0
    for position in range(total + first):
        if position < total:
            chunk = order[position][1]
            alive[chunk] += 1
            yield Event(True, chunk, tuple(alive))
        if position >= first:
            chunk = backward[done][1]
            yield Event(False, chunk, tuple(alive))
            alive[chunk] -= 1
            done += 1
