"""An incomplete last batch is kept for GPT-SFT alone: other datasets are refused."""

from upstream import loaders

RULES = ("GBS105",)
RELEASES = ("0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    loaders(rows=40, global_batch_size=32, dataloader_type="batch", drop_last=good)
    return None
