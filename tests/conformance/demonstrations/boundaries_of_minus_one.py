"""Rows of different sample counts, collated together, are split by boundaries with several -1 entries."""

from upstream import collated, lost, one_of

RULES = ("PPL102",)
RELEASES = ("0.3", "0.4", "0.5.0")


def trial(good: bool) -> str | None:
    rows = [[40, 80, 120], [8] * 20]
    if good:
        gone = sum(lost(collated([one], 256, 4, pad_to_max_length=True), 2) for one in rows)
    else:
        together = collated(rows, 256, 4, pad_to_max_length=True)
        gone = sum(lost(one_of(together, number), 2) for number in range(2))
    return f"{gone} of 512 tokens go to no rank" if gone else None
