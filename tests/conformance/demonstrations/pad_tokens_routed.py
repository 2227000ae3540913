"""Up to 0.6 the model is told nothing of the tokens that fill a row, and its routers take them for text."""

from upstream import collated, forwarded

RULES = ("MOE103",)
RELEASES = ("0.3", "0.4", "0.5", "0.6")


def trial(good: bool) -> str | None:
    batch = collated([[64, 64] if good else [40, 60]], 128, pad_to_max_length=True)
    given = forwarded(batch)
    filled = 128 - 100 if not good else 0
    assert tuple(given["input_ids"].shape) == (1, 128)
    return f"{filled} of 128 tokens are padding, and no mask says so" if filled and given.get("padding_mask") is None else None
