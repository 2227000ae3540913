"""The schedule that overlaps expert communication is planned without the boundaries of packed samples."""

from upstream import collated, forwarded

RULES = ("EPL101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6")


def trial(good: bool) -> str | None:
    given = forwarded(collated([[40, 80]], 128, pad_to_max_length=True), plan=not good)
    return None if given.get("packed_seq_params") is not None else "the plan knows no boundaries"
