"""A softmax offset over packed rows with padding needs cuDNN 9.18 from 0.5 on."""

from upstream import backends

NEEDS = "engine"
RULES = ("CPL111",)
RELEASES = ("0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    left = backends(90, 91801 if good else 91500, pad_between_seqs=True, softmax_type="learnable")
    return None if left else "no backend on Hopper"
