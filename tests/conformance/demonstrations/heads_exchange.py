"""a2a asserts that heads and key-value groups divide by the ranks."""

from upstream import exchange

NEEDS = "engine"
RULES = ("CPL106",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    exchange(comm="a2a", groups=4 if good else 3)
