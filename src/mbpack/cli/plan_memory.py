"""The memory of a plan's pack lengths: the recipe with the plan's topology, on the GPU that is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mbpack.plan.candidates import Setup
    from mbpack.plan.memory import Memory


def memory_of(setup: Setup, packs: Sequence[int], recipe: str | None, gpu: str | None, gpus: int | None) -> Memory | None:
    """The memory of every pack length; None where no recipe is named.

    Raises:
        PlanError: the GPU, the recipe or the topology cannot be used, or the model is not modelled.
    """
    from mbpack.plan._optional import PlanError

    if recipe is None:
        if gpu is not None:
            raise PlanError("--gpu needs --recipe: what fits depends on the model")
        return None
    from msgspec import structs

    from mbpack.config.assemble import build_run
    from mbpack.config.context import Context, ContextError
    from mbpack.engine.fitting import USUAL_GPU, row_multiple
    from mbpack.facts.gpus import GPUS, find_gpu, gpu_in_recipe
    from mbpack.memory.reading import describe
    from mbpack.memory.search import longest
    from mbpack.memory.sizes import NotModelled
    from mbpack.memory.verdict import judge
    from mbpack.plan.memory import Fit, Memory

    kind = find_gpu(gpu) if gpu is not None else gpu_in_recipe(recipe) or USUAL_GPU
    if kind is None:
        raise PlanError(f"--gpu {gpu}: one of {', '.join(GPUS)}")
    ranks = setup.tp * setup.pp * setup.cp
    world = gpus or ranks * (setup.dp or 1)
    try:
        found = describe(build_run(Context(version=setup.version, recipe=recipe, gpus=None), []), None, min(packs))
    except (ContextError, NotModelled) as error:
        raise PlanError(str(error)) from None
    ep = found.setup.ep if world % (setup.pp * found.setup.ep) == 0 else 1
    base = structs.replace(
        found.setup,
        gpus=world,
        tp=setup.tp,
        pp=setup.pp,
        vpp=found.setup.vpp if setup.pp == found.setup.pp else 1,
        stages=found.setup.stages if setup.pp == found.setup.pp else (),
        cp=setup.cp,
        ep=ep,
        etp=1 if ep > 1 else found.setup.etp,
        sp=setup.sp,
        mbs=1,
    )
    by_pack = {}
    for pack in packs:
        one = judge(structs.replace(base, length=pack), kind, found.unsure)
        gib = 2**30
        by_pack[pack] = Fit(one.low / gib, one.likely / gib, one.high / gib, one.verdict.value, one.fits)
    return Memory(recipe, kind.name, world, kind.usable, by_pack, longest(base, kind, row_multiple(base)))
