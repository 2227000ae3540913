"""Topologies and recompute settings that fit, cheapest first.

Cost is relative time per token at the same number of GPUs, by rules of thumb that are said with the result and measured
nowhere: 1 is data parallelism alone. It only orders what fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from mbpack.facts.gpus import Gpu
from mbpack.facts.shapes import Shape
from mbpack.memory.estimate import GIB
from mbpack.memory.layers import layer_kinds
from mbpack.memory.parameters import stage_count
from mbpack.memory.setup import Recompute, Setup
from mbpack.memory.states import states
from mbpack.memory.verdict import Estimate, high_end, judge

#: What the order of cost assumes, as it is told.
COST_RULES = (
    "cost: time a token relative to data parallelism alone, by rule of thumb: full recompute x 1.33, MLP or MoE recompute x 1.2, "
    "moe_act x 1.03, 6% a doubling of TP (30% more beyond 8), 5% of CP, 4% of EP, and the pipeline's bubble"
)
_TP, _CP, _EP, _BEYOND_NODE = 0.06, 0.05, 0.04, 0.3
_NODE = 8  #: GPUs that tensor parallelism reaches fast
_FULL, _MLP, _ACT = 1.33, 1.2, 1.03


class Candidate(Struct, frozen=True):
    """A way to run: its estimate, its cost, and what to write for it (canonical key -> value)."""

    estimate: Estimate
    cost: float
    settings: dict[str, Any]

    @property
    def setup(self) -> Setup:
        """The set-up of the run."""
        return self.estimate.setup


def cost(setup: Setup) -> float:
    """Relative time a token."""
    found = 1 + _TP * math.log2(setup.tp) + (_BEYOND_NODE if setup.tp > _NODE else 0)
    found *= 1 + _CP * math.log2(setup.cp)
    found *= 1 + _EP * math.log2(setup.ep)
    found *= 1 + (setup.pp - 1) / max(1, setup.microbatches * setup.vpp)
    if setup.recompute in (Recompute.UNIFORM, Recompute.BLOCK):
        found *= _FULL
    elif setup.modules & {"mlp", "moe"}:
        found *= _MLP
    elif setup.modules:
        found *= _ACT
    return found


def ways(setup: Setup, batch: int | None, *, keep_recompute: bool = False) -> list[Setup]:
    """Every topology and recompute setting of the same rows on the same GPUs, cheapest first.

    `batch`: rows a step, which data parallel ranks and microbatches must divide; None where it is not known.
    `keep_recompute`: topologies alone.
    """
    changes: list[dict[str, Any]] = [{}] if keep_recompute else recomputes(setup.shape)
    found: list[Setup] = []
    for pp in _pipelines(setup):
        for tp in _tensors(setup.shape):
            for cp in _contexts(setup, tp):
                if setup.gpus % (tp * pp * cp):
                    continue
                for ep in _experts(setup, pp):
                    base = _divided(setup, tp, pp, cp, ep, batch)
                    if base is not None:
                        found += [structs.replace(base, **change) for change in changes]
    return sorted(found, key=lambda one: (cost(one), one.tp, one.cp, one.pp, one.ep))


def _divided(setup: Setup, tp: int, pp: int, cp: int, ep: int, batch: int | None) -> Setup | None:
    """The set-up with other sizes, None where the batch does not divide."""
    dp = setup.gpus // (tp * pp * cp)
    if batch is not None and batch % (setup.mbs * dp):
        return None
    microbatches = batch // (setup.mbs * dp) if batch is not None else max(1, setup.microbatches * setup.dp // dp)
    same = (pp, setup.vpp) == (setup.pp, setup.vpp)
    return structs.replace(
        setup,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        etp=1,
        vpp=setup.vpp if same and pp > 1 else 1,
        stages=setup.stages if same and pp > 1 else (),
        mtp_stage=setup.mtp_stage if same and pp > 1 else None,
        sp=tp > 1,
        microbatches=microbatches,
        padded_vocab=0,
    )


def _pipelines(setup: Setup) -> Iterator[int]:
    layers = len(layer_kinds(setup.shape))
    for pp in (1, 2, 4, 8, 16, 32):
        if pp <= min(layers, setup.gpus) and setup.gpus % pp == 0 and (layers % pp == 0 or (pp == setup.pp and setup.stages)):
            yield pp


def _tensors(shape: Shape) -> Iterator[int]:
    for tp in (1, 2, 4, 8):
        groups = shape.num_query_groups
        whole = [shape.num_attention_heads, shape.vocab_size, shape.ffn_hidden_size, shape.hidden_size]
        whole += [shape.mamba_num_heads, shape.mamba_num_groups] if "M" in shape.hybrid_layer_pattern else []
        whole += [shape.linear_num_key_heads, shape.linear_num_value_heads] if shape.linear_attention_freq else []
        whole += [shape.moe_shared_expert_intermediate_size]
        if all(size % tp == 0 for size in whole) and (groups % tp == 0 or tp % groups == 0):
            yield tp


def _contexts(setup: Setup, tp: int) -> Iterator[int]:
    for cp in (1, 2, 4, 8, 16, 32):
        multiple = (2 * cp if cp > 1 else 1) * (tp if tp > 1 else 1)
        if cp > 1 and setup.shape.linear_attention_freq and setup.release < (0, 5):
            return  # the gated delta net takes no context parallelism before
        if cp <= setup.gpus and setup.length % multiple == 0 and (cp == 1 or setup.length // cp >= _LEAST_TOKENS):
            yield cp


#: Tokens a context parallel rank should have at least.
_LEAST_TOKENS = 1024


def _experts(setup: Setup, pp: int) -> Iterator[int]:
    number = setup.shape.num_moe_experts
    if not number:
        yield 1
        return
    ranks = setup.gpus // pp
    for ep in (1, 2, 4, 8, 16, 32, 64):
        if ep <= number and number % ep == 0 and ranks % ep == 0:
            yield ep


def recomputes(shape: Shape) -> list[dict[str, Any]]:
    """The recompute settings worth trying for a model, from none to full."""
    kinds = set("".join(layer_kinds(shape)))
    modules = {"mlp"} if "-" in kinds else set()
    heavy = modules | ({"moe"} if "E" in kinds else set())
    found: list[dict[str, Any]] = [{"recompute": Recompute.NONE, "modules": frozenset()}]
    if "E" in kinds:
        found.append({"recompute": Recompute.SELECTIVE, "modules": frozenset({"moe_act"})})
    if heavy:
        found.append({"recompute": Recompute.SELECTIVE, "modules": frozenset(heavy)})
    if not shape.hybrid_layer_pattern:
        found.append({"recompute": Recompute.UNIFORM, "modules": frozenset(), "recompute_layers": 1})
    return found


def settings_of(setup: Setup) -> dict[str, Any]:
    """What to write for the topology and recompute setting of a candidate."""
    found: dict[str, Any] = {
        "model.tensor_model_parallel_size": setup.tp,
        "model.pipeline_model_parallel_size": setup.pp,
        "model.virtual_pipeline_model_parallel_size": setup.vpp if setup.vpp > 1 else None,
        "model.context_parallel_size": setup.cp,
        "model.sequence_parallel": setup.sp,
    }
    if setup.shape.num_moe_experts:
        found |= {"model.expert_model_parallel_size": setup.ep, "model.expert_tensor_parallel_size": setup.etp}
    if not setup.stages:
        found["model.pipeline_model_parallel_layout"] = None
    if setup.recompute is Recompute.SELECTIVE:
        found |= {"model.recompute_granularity": "selective", "model.recompute_modules": sorted(setup.modules)}
        found |= {"model.recompute_method": None, "model.recompute_num_layers": None}
    elif setup.recompute is Recompute.NONE:
        found |= {"model.recompute_granularity": None, "model.recompute_method": None, "model.recompute_num_layers": None}
    else:
        method = "block" if setup.recompute is Recompute.BLOCK else "uniform"
        found |= {"model.recompute_granularity": "full", "model.recompute_method": method}
        found["model.recompute_num_layers"] = setup.recompute_layers
    return found


def candidates(setup: Setup, gpu: Gpu, batch: int | None, unsure: tuple[str, ...] = ()) -> Iterator[Candidate]:
    """What fits by its high end, cheapest first, one recompute setting a topology."""
    seen: set[tuple[int, ...]] = set()
    for one in ways(setup, batch):
        place = (one.tp, one.pp, one.cp, one.ep)
        if place in seen or _states_alone(one) > gpu.usable * GIB:
            continue
        if high_end(one, gpu) <= gpu.usable * GIB:
            seen.add(place)
            yield Candidate(judge(one, gpu, unsure), cost(one), settings_of(one))


def _states_alone(setup: Setup) -> float:
    return max(states(setup, stage_count(setup, index)).total for index in {0, setup.pp - 1})


def longest(setup: Setup, gpu: Gpu, multiple: int = 256, most: int = 1 << 24) -> int:
    """The longest row in tokens, a multiple of `multiple`, whose high end fits; 0 where none does."""

    def fits(count: int) -> bool:
        return high_end(structs.replace(setup, length=count * multiple), gpu) <= gpu.usable * GIB

    if not fits(1):
        return 0
    low, high = 1, 2
    while high * multiple <= most and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * multiple
