"""a2a+p2p refuses packed rows."""

from upstream import exchange

NEEDS = "engine"
RULES = ("CPL107",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    exchange(comm="p2p" if good else "a2a+p2p")
