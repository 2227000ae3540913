"""The step of Qwen3-VL cuts rows at model.seq_length under pipeline or expert parallelism."""

from upstream import Group, first, namespace

RULES = ("STP106",)
RELEASES = ("0.4", "0.5")


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.bridge.models.qwen_vl.qwen3_vl_step")
    tokens = torch.full((1, 300), 5)
    groups = namespace(tp=Group(1), cp=Group(1), pp=Group(1 if good else 2), ep=Group(1))
    found, *_ = module.pack_or_pad_batch_sequences(
        tokens,
        tokens.clone(),
        torch.ones_like(tokens),
        torch.ones(1, 1, 300, 300),
        torch.arange(300).repeat(1, 1),
        groups,
        force_to_pad_to_seq_len=groups.pp.size() > 1 or groups.ep.size() > 1,  # as forward_step asks for it
        seq_length=256,
    )
    lost = tokens.numel() - int((found == 5).sum())
    return f"{lost} of {tokens.numel()} tokens are cut" if lost else None
