"""0.3 packs rows in the batch to a total that sequence parallel ranks do not divide."""

from upstream import Group, first

RULES = ("ALN118",)
RELEASES = ("0.3",)
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import torch

    step = first("megatron.bridge.training.vlm_step")
    lengths = [28, 32] if good else [25, 32]
    tokens = torch.zeros(2, 32, dtype=torch.long)
    for number, length in enumerate(lengths):
        tokens[number, :length] = 5
    found, *_ = step.pack_batch_sequences(tokens, tokens.clone(), (tokens > 0).long(), None, torch.arange(32).repeat(2, 1))
    module = first("megatron.core.tensor_parallel.mappings")
    module.get_tensor_model_parallel_group_if_none = lambda group, *a, **k: group
    module._split_along_first_dim(found.transpose(0, 1).unsqueeze(-1), Group(4))
    return None
