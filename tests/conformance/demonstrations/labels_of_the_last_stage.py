"""0.3 packs rows in the batch on every pipeline stage, but only the last one has labels."""

from upstream import Group, first, namespace

RULES = ("PPL103",)
RELEASES = ("0.3",)
EXPECTED = ("AttributeError",)


def trial(good: bool) -> str | None:
    import torch

    step = first("megatron.bridge.training.vlm_step")
    step.is_pp_first_stage = lambda group: group.rank() == 0
    step.is_pp_last_stage = lambda group: group.rank() == group.size() - 1
    tokens = torch.full((2, 8), 5)
    batch = {
        "tokens": tokens,
        "labels": tokens.clone(),
        "loss_mask": tokens.clone(),
        "position_ids": torch.arange(8).repeat(2, 1),
    }
    cfg = namespace(dataset=namespace(pack_sequences_in_batch=True), model=namespace(seq_length=8))
    step.get_batch(iter([batch]), cfg, pg_collection=namespace(pp=Group(1 if good else 2), cp=Group(1)))
    return None
