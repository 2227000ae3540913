"""The capped attention of Gemma2 has no packed path."""

from upstream import Reached, Self, first

RULES = ("GEM101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError", "NotImplementedError", "ValueError")


def trial(good: bool) -> str | None:
    import torch

    attend = first("megatron.bridge.models.gemma.gemma2_provider").Gemma2DotProductAttention.forward
    part = torch.zeros(4, 1, 2, 8)
    try:
        attend(Self(), part, part, part, None, packed_seq_params=None if good else object())
    except Reached:
        return None
    return None
