"""Flash attention alone takes no padding between samples."""

from upstream import backends

NEEDS = "engine"
RULES = ("ATN109",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    left = backends(90, pad_between_seqs=not good)
    return None if "F" in left else f"flash is not among what is left ({left})"
