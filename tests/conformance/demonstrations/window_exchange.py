"""A sliding window needs a2a."""

from upstream import exchange

NEEDS = "engine"
RULES = ("CPL110",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    exchange(comm="a2a" if good else "p2p", window_size=(128, 0))
