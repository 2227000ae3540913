"""Packs made without a multiple are opened by a run that needs one, and its ranks lose tokens."""

from upstream import lost, packed_dataset, row

RULES = ("DAT116",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    held = row([41, 83, 59], 4 if good else 1)
    data = packed_dataset([held], 256, pad_to_max_length=True, pad_seq_to_mult=4)
    gone = lost(dict(data.collate_fn([data[0]])), 2)
    return f"{gone} of 256 tokens go to no rank" if gone else None
