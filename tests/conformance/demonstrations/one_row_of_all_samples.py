"""The batch loader has a whole step packed into one row, which does not divide into microbatches."""

from upstream import first

RULES = ("BAT109",)
RELEASES = ("0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    import torch

    tokens = torch.full((4, 8), 5)
    batch = {
        "tokens": tokens,
        "labels": tokens.clone(),
        "loss_mask": tokens.clone(),
        "position_ids": torch.arange(8).repeat(4, 1),
    }
    if not good:
        first("megatron.bridge.data.packing.in_batch").pack_right_padded_sequence_batch_to_mcore_thd(batch)
    first("megatron.bridge.data.batch_utils").prepare_finetuning_batch(iter([batch]), 4, 8)
    return None
