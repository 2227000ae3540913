"""The estimate: what each pipeline stage needs at most, of what it is made, and how sure that is.

All sizes are bytes. The figure called *allocated* is what `torch.cuda.max_memory_allocated` reports and what training logs
and recordings hold.
"""

from __future__ import annotations

from functools import lru_cache

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


@lru_cache(maxsize=2048)
def stage(setup: Setup, index: int, imbalance: float = 1.0, generation: str = "sm90") -> Stage:
    """The peak of one stage and its rows."""
    parts = chunks(setup)[index]
    count = stage_count(setup, index)
    held = states(setup, count)
    sizes = [ledger.kept(setup, chunk, imbalance).total for chunk in parts]
    best, moment = -1.0, ("step", (0,) * len(parts), 0.0, "")
    for event in events(index, setup.pp, setup.vpp, setup.microbatches):
        live = sum(n * size for n, size in zip(event.alive, sizes, strict=True))
        for when, extra, term in _extras(setup, parts[event.chunk], event.forward, imbalance, generation):
            gone = sizes[event.chunk] if when == "embedding" else _logits_gone(setup, parts[event.chunk], when)
            if live + extra - gone > best:
                best, moment = live + extra - gone, (when, event.alive, extra, term)
    when, alive, extra, term = moment
    rows = _rows(setup, parts, alive, when, imbalance)
    for chunk in parts:
        rows.add(ledger.once(setup, chunk))
    if extra:
        rows.put(term, extra)
    copies = step_copies(setup, count)
    if copies > rows.total:
        rows, when, alive = Rows(), "step", (0,)
        rows.put("gradients", copies)
    rows.add(held)
    rows.put("workspaces", workspaces(setup, generation))
    return Stage(index, rows, when, sum(alive), count.all, before_first_step(setup, count))


def workspaces(setup: Setup, generation: str) -> float:
    """Bytes of library workspaces."""
    if generation == "sm80":
        return WORKSPACES_SM80
    return WORKSPACES + (GROUPED if setup.shape.num_moe_experts and setup.grouped_gemm else 0)


def _extras(setup: Setup, chunk: Chunk, forward: bool, imbalance: float, generation: str) -> list[tuple[str, float, str]]:
    """(when, bytes above what is kept, term) of the moments of one event."""
    if forward:
        if chunk.loss:
            return [("loss", workspace.loss(setup, generation) + workspace.overlap(setup, chunk, imbalance), "loss peak")]
        return [("forward", workspace.overlap(setup, chunk, imbalance), "backward workspace")]
    found = [("backward", workspace.backward(setup, chunk, imbalance), "backward workspace")]
    if chunk.embedding:
        found.append(("embedding", workspace.embedding_gradient(setup, chunk), "embedding gradient"))
    return found


def _logits_gone(setup: Setup, chunk: Chunk, when: str) -> float:
    """Logits have gone when the layers below the loss run back."""
    if when != "backward" or not chunk.loss:
        return 0
    return ledger.kept_logit_bytes(setup) * ledger.logits(setup) * (1 + chunk.mtp)


def _rows(setup: Setup, parts: tuple[Chunk, ...], alive: tuple[int, ...], when: str, imbalance: float) -> Rows:
    rows = Rows()
    for chunk, number in zip(parts, alive, strict=True):
        rows.add(ledger.kept(setup, chunk, imbalance), number)
    if when == "backward":
        for chunk, number in zip(parts, alive, strict=True):
            if number and chunk.loss:
                rows["logits"] = rows.get("logits", 0) - _logits_gone(setup, chunk, when)
    elif when == "embedding":
        for term, size in ledger.kept(setup, parts[0], imbalance).items():
            rows[term] -= size
    return rows


@lru_cache(maxsize=512)
def stages(setup: Setup, imbalance: float = 1.0, generation: str = "sm90") -> tuple[Stage, ...]:
    """Every stage at its peak."""
    return tuple(stage(setup, index, imbalance, generation) for index in range(setup.pp))


def worst(setup: Setup, imbalance: float = 1.0, generation: str = "sm90") -> Stage:
    """The stage that needs most."""
    return max(stages(setup, imbalance, generation), key=lambda found: found.peak)
