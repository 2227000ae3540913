"""From 0.5 on padding between samples leaves no backend on Ampere, and none for wide heads on Blackwell."""

from upstream import backends

NEEDS = "engine"
RULES = ("ATN109",)
RELEASES = ("0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    left = [backends(80, pad_between_seqs=not good), backends(100, pad_between_seqs=not good, width=256)]
    return None if all(left) else f"Ampere: {left[0] or 'none'}, heads of 256 on Blackwell: {left[1] or 'none'}"
