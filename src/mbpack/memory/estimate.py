"""The estimate: what each pipeline stage needs at most, of what it is made, and how sure that is.

All sizes are bytes. The figure called *allocated* is what `torch.cuda.max_memory_allocated` reports and what training logs
and recordings hold.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from typing import NamedTuple

from msgspec import Struct

from mbpack.memory import ledger, workspace
from mbpack.memory.layers import Chunk, chunks
from mbpack.memory.parameters import stage_count
from mbpack.memory.rows import Rows
from mbpack.memory.schedule import events
from mbpack.memory.setup import Setup
from mbpack.memory.states import before_first_step, states, step_copies

GIB = 2**30
#: Workspaces of cuBLAS and small buffers, in bytes, and what grouped GEMMs of experts add on four streams from Hopper on.
#: Found from the recordings below 6 GiB: what a step leaves allocated above the states.
WORKSPACES = 0.11 * GIB
WORKSPACES_SM80 = 0.08 * GIB
GROUPED = 0.12 * GIB


class Stage(Struct, frozen=True):
    """One pipeline stage at its peak. `when`: "loss", "backward", "embedding" or "step". `alive`: microbatches kept then."""

    index: int
    rows: Rows
    when: str
    alive: int
    parameters: float
    first_step: float

    @property
    def peak(self) -> float:
        """Bytes allocated at the peak, from the second step on."""
        return self.rows.total


class _Moment(NamedTuple):
    """What comes and goes at one kind of event of a chunk: bytes above what is kept under a term, and bytes that have gone."""

    when: str
    extra: float
    term: str
    gone: float


@lru_cache(maxsize=2048)
def stage(setup: Setup, index: int, imbalance: float = 1.0, generation: str = "sm90") -> Stage:
    """The peak of one stage and its rows."""
    parts = chunks(setup)[index]
    count = stage_count(setup, index)
    kept = [ledger.kept(setup, chunk, imbalance) for chunk in parts]
    sizes = [rows.total for rows in kept]
    moments = {
        (chunk, forward): _moments(setup, parts[chunk], sizes[chunk], forward, imbalance, generation)
        for chunk in range(len(parts))
        for forward in (True, False)
    }
    best, at, alive, moment = -1.0, 0, (0,) * len(parts), _Moment("step", 0, "", 0)
    for event in dict.fromkeys(events(index, setup.pp, setup.vpp, setup.microbatches)):
        live = sum(map(mul, event.alive, sizes))
        for found in moments[event.chunk, event.forward]:
            if live + found.extra - found.gone > best:
                best, at, alive, moment = live + found.extra - found.gone, event.chunk, event.alive, found
    rows, when = Rows(), moment.when
    for part, number in zip(kept, alive, strict=True):
        rows.add(part, number)
    _take_away(rows, kept[at], moment)
    for chunk in parts:
        rows.add(ledger.once(setup, chunk))
    if moment.extra:
        rows.put(moment.term, moment.extra)
    copies = step_copies(setup, count)
    if copies > rows.total:
        rows, when, alive = Rows(), "step", (0,)
        rows.put("gradients", copies)
    rows.add(states(setup, count))
    rows.put("workspaces", workspaces(setup, generation))
    return Stage(index, rows, when, sum(alive), count.all, before_first_step(setup, count))


def _take_away(rows: Rows, kept: Rows, moment: _Moment) -> None:
    """Take off what has gone: the logits of the chunk that runs back, or all it kept when its embedding does."""
    if moment.when == "backward" and moment.gone:
        rows["logits"] -= moment.gone
    elif moment.when == "embedding":
        for term, size in kept.items():
            rows[term] -= size


def workspaces(setup: Setup, generation: str) -> float:
    """Bytes of library workspaces."""
    if generation == "sm80":
        return WORKSPACES_SM80
    return WORKSPACES + (GROUPED if setup.shape.num_moe_experts and setup.grouped_gemm else 0)


def _moments(setup: Setup, chunk: Chunk, kept: float, forward: bool, imbalance: float, generation: str) -> list[_Moment]:
    """What comes and goes when a chunk has run forward, or runs back."""
    if forward:
        ahead = workspace.overlap(setup, chunk, imbalance)
        if chunk.loss:
            return [_Moment("loss", workspace.loss(setup, generation) + ahead, "loss peak", 0)]
        return [_Moment("forward", ahead, "backward workspace", 0)]
    gone = ledger.kept_logit_bytes(setup) * ledger.logits(setup) * (1 + chunk.mtp) if chunk.loss else 0
    found = [_Moment("backward", workspace.backward(setup, chunk, imbalance), "backward workspace", gone)]
    if chunk.embedding:
        found.append(_Moment("embedding", workspace.embedding_gradient(setup, chunk), "embedding gradient", kept))
    return found


@lru_cache(maxsize=512)
def stages(setup: Setup, imbalance: float = 1.0, generation: str = "sm90") -> tuple[Stage, ...]:
    """Every stage at its peak."""
    return tuple(stage(setup, index, imbalance, generation) for index in range(setup.pp))


def worst(setup: Setup, imbalance: float = 1.0, generation: str = "sm90") -> Stage:
    """The stage that needs most."""
    return max(stages(setup, imbalance, generation), key=lambda found: found.peak)
