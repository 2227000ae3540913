"""No backend computes attention over packed rows in FP8."""

from upstream import backends

NEEDS = "engine"
RULES = ("CPL113",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    left = {gpu: backends(gpu, fp8="none" if good else "delayed") for gpu in (90, 100)}
    return None if any(left.values()) else "no backend on Hopper and Blackwell"
