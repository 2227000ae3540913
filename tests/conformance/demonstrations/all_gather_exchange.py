"""all_gather refuses packed rows up to 0.6."""

from upstream import exchange

NEEDS = "engine"
RULES = ("CPL108",)
RELEASES = ("0.3", "0.4", "0.5", "0.6")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    exchange(comm="p2p" if good else "all_gather")
