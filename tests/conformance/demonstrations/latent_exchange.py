"""Up to 0.4 values of another width than the queries are exchanged point to point only."""

from upstream import exchange

NEEDS = "engine"
RULES = ("CPL112",)
RELEASES = ("0.3", "0.4")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    exchange(comm="p2p" if good else "a2a", packed=False, width=192, values=128)
