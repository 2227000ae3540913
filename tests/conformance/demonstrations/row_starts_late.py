"""A packed row whose first sample does not start at 0 is taken as it is: its first tokens are never trained on."""

from upstream import packed_dataset, row

RULES = ("DAT112",)
RELEASES = ("0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    held = row([40, 30])
    if not good:
        held["seq_start_id"][0] = 6
    data = packed_dataset([held], 128, pad_to_max_length=True)
    trained = int(data.collate_fn([data[0]])["loss_mask"].sum())
    return None if trained == 70 else f"{70 - trained} of 70 tokens are left out without a word"
