"""A packed row longer than the pack size stops the collation of its batch."""

from upstream import collated

RULES = ("DAT113",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    collated([[60, 60]] if good else [[60, 90]], 128, pad_to_max_length=True)
    return None
