"""Up to 0.5 a sample cut at an unaligned limit stays unaligned."""

from upstream import Tokenizer, first

RULES = ("ALN105",)
RELEASES = ("0.3", "0.4", "0.5")


class Samples(list):  # type: ignore[type-arg]
    tokenizer = Tokenizer()
    pad_seq_length_to_mult = 4

    def __init__(self, values, limit: int) -> None:
        super().__init__(values)
        self.max_seq_length = limit


def trial(good: bool) -> str | None:
    import inspect

    module = first("megatron.bridge.data.datasets.packed_sequence")
    limit = 32 if good else 34
    sample = {
        "input_ids": [5] * limit,
        "context_ids": [5],
        "answer_ids": [5] * limit,
        "loss_mask": [1] * limit,
        "answer_start_idx": 1,
    }
    module.create_sft_dataset = lambda **more: Samples([sample], limit)
    asked = inspect.signature(module.tokenize_dataset).parameters
    given = {
        "path": "x",
        "tokenizer": Tokenizer(),
        "max_seq_length": limit,
        "seed": 1,
        "dataset_kwargs": {},
        "pad_seq_to_mult": 4,
    }
    found = module.tokenize_dataset(**{name: value for name, value in given.items() if name in asked})
    length = len(found[0]["input_ids"]) - 1
    return None if length % 4 == 0 else f"a sample of {length} tokens, no multiple of 4"
