"""Weights, gradients and optimizer states of one rank.

Sources: Megatron-Core `optimizer/distrib_optimizer.py`, `optimizer/optimizer.py`, `distributed/param_and_grad_buffer.py`;
Transformer Engine `module/base.py` (weight workspaces of FP8).
"""

from __future__ import annotations

from mbpack.memory.parameters import Count
from mbpack.memory.rows import Rows
from mbpack.memory.setup import Setup


def states(setup: Setup, count: Count) -> Rows:
    """What a rank holds from the second step on."""
    rows = Rows()
    rows.put("weights", 2 * count.all)
    if setup.fp8 and not setup.fp8_params:
        rows.put("weight copies", 2 * count.all)
    rows.put("gradients", setup.grad_bytes * (count.dense_trained + count.expert_trained))
    rows.put("optimizer", optimizer(setup, count))
    return rows


def optimizer(setup: Setup, count: Count) -> float:
    """Master weights and moments of a rank, without what is offloaded to the host."""
    each = (setup.master_bytes + setup.moment_bytes) * (1 - setup.offload)
    return each * _shared(setup, count)


def _shared(setup: Setup, count: Count) -> float:
    return count.dense_trained / setup.dense_shards + count.expert_trained / setup.expert_shards


def before_first_step(setup: Setup, count: Count) -> float:
    """Bytes of the optimizer that appear with the first step: Adam makes its moments there."""
    return setup.moment_bytes * (1 - setup.offload) * _shared(setup, count)


def step_copies(setup: Setup, count: Count) -> float:
    """FP32 gradients that the step itself makes from BF16 ones, for the share of the rank."""
    return 4 * _shared(setup, count) if setup.grad_bytes == 2 and not setup.precision_aware else 0
