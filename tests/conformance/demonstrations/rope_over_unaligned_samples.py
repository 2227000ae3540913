"""Unfused rotary embedding cannot split a rank's share by unaligned samples."""

from upstream import Group, first

RULES = ("ALN101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("RuntimeError",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.models.common.embeddings.rope_utils")
    bounds = torch.tensor([0, 8, 40, 64] if good else [0, 7, 37, 64], dtype=torch.int32)
    module._apply_rotary_pos_emb_thd(torch.zeros(32, 2, 8), bounds, torch.zeros(32, 1, 1, 8), cp_group=Group(2))
    return None
