"""The expert layer stops at the first training step without sequence parallelism."""

from upstream import Group, Reached, Self, first

RULES = ("MOE105",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.transformer.moe.moe_layer")
    layer = Self(training=True, attn_tp_group=Group(2), tp_group=Group(2), config=Self(sequence_parallel=good))
    try:
        module.MoELayer.forward(layer, torch.zeros(4, 1, 8))
    except Reached:
        return None
    return None
