"""The context parallel split refuses a microbatch of two packed rows."""

from upstream import collated, split

RULES = ("STP103",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    rows = [[40, 80]] if good else [[40, 80], [100, 20]]
    split(collated(rows, 128, 4, pad_to_max_length=True), 2, 0)
    return None
