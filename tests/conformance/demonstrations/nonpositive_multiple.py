"""A padding multiple of zero, which an override may bring, stops tokenisation."""

from upstream import tokenized

RULES = ("ALN110",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    tokenized([20], 32, 4 if good else 0)
    return None
