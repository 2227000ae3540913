"""Up to 0.5 a conversation longer than the limit is beyond the histogram of lengths."""

from upstream import first

RULES = ("DAT127",)
RELEASES = ("0.3", "0.4", "0.5")
EXPECTED = ("IndexError",)


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.datasets.packing_utils")
    module.create_hist([{"input_ids": [5] * (30 if good else 90), "loss_mask": [1]}], 64)
    return None
