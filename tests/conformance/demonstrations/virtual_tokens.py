"""The dataset of packed rows takes no virtual tokens."""

from upstream import packed_dataset, row

RULES = ("DAT135",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    packed_dataset([row([9])], 32, virtual_tokens=0 if good else 4)
    return None
