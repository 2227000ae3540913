"""Sequence parallel cannot split a row that its ranks do not divide."""

from upstream import Group, first

RULES = ("ALN103",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.tensor_parallel.mappings")
    module.get_tensor_model_parallel_group_if_none = lambda group, *a, **k: group
    module._split_along_first_dim(torch.zeros(4096 if good else 4098, 1, 8), Group(4))
    return None
