"""A training set below one global batch: from 0.5 on the loaders refuse it, before that not one batch comes."""

from upstream import loaders

RULES = ("GBS104",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("RuntimeError",)


def trial(good: bool) -> str | None:
    train = loaders(rows=64 if good else 20, global_batch_size=32, dataloader_type="batch")
    return None if len(list(train.batch_sampler)) else "not one batch"
