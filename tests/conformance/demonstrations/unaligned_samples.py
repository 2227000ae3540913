"""Samples that 2*CP does not divide lose tokens in the context parallel split."""

from upstream import collated, lost

RULES = ("ALN101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    gone = lost(collated([[7, 30, 11, 50, 21, 101]], 256, 4 if good else 1, pad_to_max_length=True), 2)
    return f"{gone} of 256 tokens go to no rank" if gone else None
