"""What the answers so far need of the GPU's memory, and the smallest topology that fits it.

Asked with the recipe's own recompute setting: the wizard has no question about it. Nothing is said, and nothing proposed,
for models that are not modelled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from msgspec import structs

from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.gpus import GPUS, gpu_in_recipe
from mbpack.memory.estimate import GIB
from mbpack.memory.reading import describe
from mbpack.memory.search import ways
from mbpack.memory.setup import Setup
from mbpack.memory.sizes import NotModelled
from mbpack.memory.verdict import high_end, judge
from mbpack.wizard.draft import Draft

#: The GPU that is counted with where neither an answer nor the recipe's name says one.
USUAL_GPU = "h100-80gb"
#: Answers that are sizes of the topology, by the field of a set-up.
SIZES = ("tp", "pp", "cp", "ep")
#: How often the recipe's number of GPUs is doubled in the search for one that suffices.
_DOUBLED = 6


class Topology(NamedTuple):
    """Parallel sizes that fit, and what the run needs with them, in GiB."""

    tp: int
    pp: int
    cp: int
    ep: int
    high: float


def own_gpu(draft: Draft) -> str | None:
    """The GPU in the recipe's name, None where it names none."""
    found = gpu_in_recipe(draft.recipe.name)
    return found.name if found is not None else None


def base_setup(draft: Draft, gpus: int, length: int) -> Setup | None:
    """The recipe's set-up on another number of GPUs with another length, its topology untouched; None where not modelled."""
    try:
        found = describe(draft.base, None, length).setup
    except (NotModelled, Unknown, WrongKind):
        return None
    return structs.replace(found, gpus=gpus)


def length_of(draft: Draft) -> int:
    """The row that is counted with before the length is asked: the answer, else what will be proposed."""
    if draft.given("seq_length"):
        return int(draft.answers["seq_length"])
    from mbpack.wizard.defaults import wanted_length

    return wanted_length(draft)[0]


def smallest(draft: Draft, gpus: int) -> Topology | None:
    """The cheapest topology on so many GPUs that fits for certain and keeps every size that was answered."""
    gpu = str(draft.get("gpu"))
    given = tuple((name, int(draft.answers[name])) for name in SIZES if draft.given(name))
    setup = base_setup(draft, gpus, length_of(draft))
    return None if setup is None else _smallest(setup, gpu, given)


@lru_cache(maxsize=512)
def _smallest(setup: Setup, gpu: str, given: tuple[tuple[str, int], ...]) -> Topology | None:
    room = GPUS[gpu].usable * GIB
    for one in ways(setup, None, keep_recompute=True):
        if any(getattr(one, name) != size for name, size in given):
            continue
        high = high_end(one, GPUS[gpu])
        if high <= room:
            return Topology(one.tp, one.pp, one.cp, one.ep, high / GIB)
    return None


def own_fits(draft: Draft, gpus: int) -> bool | None:
    """Whether the recipe's topology, as far as the GPUs allow it, may fit; None where nobody knows."""
    gpu = str(draft.get("gpu"))
    setup = base_setup(draft, gpus, length_of(draft))
    if setup is None:
        return None
    if gpus % (setup.tp * setup.pp * setup.cp):
        return False
    return judge(setup, GPUS[gpu]).likely <= GPUS[gpu].usable * GIB


def enough_gpus(draft: Draft, start: int) -> int | None:
    """The smallest of `start`, its double, and so on, on which something fits; None where none does or nobody knows."""
    for power in range(_DOUBLED):
        if own_fits(draft, start << power) or smallest(draft, start << power) is not None:
            return start << power
    return None


def line(draft: Draft) -> str | None:
    """What the answers so far need, in one line; None where nobody knows."""
    gpu = str(draft.get("gpu"))
    setup = base_setup(draft, int(draft.get("gpus")), length_of(draft))
    if setup is None:
        return None
    setup = structs.replace(
        setup,
        tp=draft.tp,
        pp=draft.pp,
        cp=draft.cp,
        ep=draft.ep,
        etp=draft.etp if draft.moe else 1,
        vpp=draft.get("vpp") or 1,
        sp=draft.sp,
        stages=setup.stages if (draft.pp, draft.get("vpp") or 1) == (setup.pp, setup.vpp) else (),
    )
    found = judge(setup, GPUS[gpu])
    return (
        f"about {found.likely / GIB:.0f} GiB of {GPUS[gpu].usable:.0f} on {gpu} with {setup.length:,} tokens a row "
        f"({found.low / GIB:.0f} to {found.high / GIB:.0f}): {found.verdict.value}"
    )
