"""The step of Qwen3-VL refuses rows that the collate function has packed."""

from upstream import first

RULES = ("STP102",)
RELEASES = ("0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    import torch

    tokens = torch.full((2, 8), 5)
    batch = {
        "tokens": tokens,
        "labels": tokens.clone(),
        "loss_mask": tokens.clone(),
        "position_ids": torch.arange(8).repeat(2, 1),
    }
    if not good:
        first("megatron.bridge.data.packing.in_batch").pack_right_padded_sequence_batch_to_mcore_thd(batch)
    step = first("megatron.bridge.models.qwen_vl.qwen3_vl_step")
    step.get_batch_from_iterator(iter([batch]), is_first_pp_stage=True, is_last_pp_stage=True)
    return None
