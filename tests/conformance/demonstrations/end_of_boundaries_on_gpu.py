"""The context parallel split does not wait for a GPU to learn where the boundaries end."""

from upstream import first

RULES = ("STP104",)
RELEASES = ("0.5", "0.6", "0.7")
EXPECTED = ("ValueError",)


class OnGpu:
    """A number that lies on a GPU."""

    is_cuda = True


def trial(good: bool) -> str | None:
    import torch

    step = first("megatron.bridge.training.gpt_step")
    boundaries = torch.tensor([0, 40, 64, -1])
    kept = step._trim_padded_cu_seqlens_for_cp(boundaries, torch.tensor([3]) if good else OnGpu())
    return None if len(kept) == 3 else "the boundaries keep their filling"
