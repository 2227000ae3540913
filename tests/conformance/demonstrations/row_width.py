"""A row that 2*CP does not divide is refused by the split's own host code."""

from upstream import collated, split

RULES = ("ALN104", "ALN108")
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("RuntimeError",)


def trial(good: bool) -> str | None:
    split(collated([[40, 80, 120]], 256 if good else 254, 4, pad_to_max_length=True), 2, 0)
    return None
