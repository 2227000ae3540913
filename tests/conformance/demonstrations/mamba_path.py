"""Mamba layers off the memory-efficient path assert that rows are not packed."""

from upstream import Reached, Self, first

RULES = ("SSM102",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.ssm.mamba_mixer")
    layer = Self(
        training=True,
        in_proj=lambda states: (states, None),
        cp=Self(pre_conv_ssm=lambda states, *more: states),
        use_mem_eff_path=good,
        config=Self(sequence_parallel=False),
    )
    try:
        module.MambaMixer.forward(layer, torch.zeros(8, 1, 4), packed_seq_params=object())
    except Reached:
        return None
    return None
