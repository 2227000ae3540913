"""The step of Qwen3-VL joins rows with their padding."""

from upstream import Group, first, namespace

RULES = ("STP108",)
RELEASES = ("0.6", "0.7")


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.bridge.models.qwen_vl.qwen3_vl_step")
    lengths = [992, 992] if good else [1000, 100]
    width = max(lengths)
    tokens = torch.zeros(2, width, dtype=torch.long)
    for place, length in enumerate(lengths):
        tokens[place, :length] = 5
    mask = (tokens > 0).long()
    groups = namespace(tp=Group(1), cp=Group(1), pp=Group(1), ep=Group(1))
    found, *_ = module._pad_and_pack_qwen3_vl_step(
        tokens, tokens.clone(), mask.clone(), mask, torch.arange(width).repeat(2, 1), groups, use_fp8_padding=True
    )
    computed = found.numel()
    return f"{computed} tokens are computed for {sum(lengths)}" if computed > sum(lengths) * 1.1 else None
