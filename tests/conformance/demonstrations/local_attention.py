"""Megatron-Core's own attention asserts that rows are not packed."""

from upstream import Reached, Self, first

RULES = ("ATN102",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import torch

    attend = first("megatron.core.transformer.dot_product_attention").DotProductAttention.forward
    part = torch.zeros(4, 1, 2, 8)
    try:
        attend(Self(), part, part, part, None, packed_seq_params=None if good else object())
    except Reached:
        return None
    return None
