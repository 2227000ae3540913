"""From 0.5 on unfused attention takes no padding between samples."""

from upstream import backends

NEEDS = "engine"
RULES = ("ATN102",)
RELEASES = ("0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    left = backends(90, pad_between_seqs=not good)
    return None if "U" in left else f"unfused is not among what is left ({left})"
