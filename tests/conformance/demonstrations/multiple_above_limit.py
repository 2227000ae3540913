"""A padding multiple above the sample limit leaves nothing of it."""

from upstream import Tokenizer, first

RULES = ("ALN112",)
RELEASES = ("0.6", "0.7")
EXPECTED = ("ValueError",)


class Samples(list):  # type: ignore[type-arg]
    tokenizer = Tokenizer()
    pad_seq_length_to_mult = 16


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.packing.offline")
    sample = {"input_ids": [5, 6, 2], "context_ids": [5], "answer_ids": [6, 2], "loss_mask": [0, 1, 1]}
    multiple = 16 if good else 1024
    module.tokenize_dataset("x", Tokenizer(), 512, 1, {}, multiple, dataset_builder=lambda *a, **k: Samples([sample]))
    return None
