"""Before 0.5 the gated delta net takes no packed rows."""

from upstream import Reached, Self, first

RULES = ("GDN101", "FAM105")
RELEASES = ("0.3", "0.4")
EXPECTED = ("NotImplementedError",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.ssm.gated_delta_net")
    layer = Self(sp_size=1, config=Self(sequence_parallel=False, deterministic_mode=False))
    try:
        module.GatedDeltaNet.forward(layer, torch.zeros(8, 1, 4), None, packed_seq_params=None if good else object())
    except Reached:
        pass
    return None
