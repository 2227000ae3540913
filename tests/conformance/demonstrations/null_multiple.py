"""A padding multiple of null is compared with 1."""

from upstream import RELEASE, Tokenizer, first, packed_dataset, row

RULES = ("ALN109",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("TypeError",)


class Samples(list):  # type: ignore[type-arg]
    tokenizer = Tokenizer()
    max_seq_length = 16
    pad_seq_length_to_mult = 16


def trial(good: bool) -> str | None:
    multiple = 1 if good else None
    if RELEASE >= "0.6":
        data = packed_dataset([row([9, 9])], 32, pad_seq_to_mult=multiple)
        data.collate_fn([data[0]])
        return None
    import inspect

    module = first("megatron.bridge.data.datasets.packed_sequence")
    module.create_sft_dataset = lambda **more: Samples([{"input_ids": [5, 6, 2], "context_ids": [5], "answer_ids": [6, 2]}])
    asked = inspect.signature(module.tokenize_dataset).parameters
    given = {
        "path": "x",
        "tokenizer": Tokenizer(),
        "max_seq_length": 16,
        "seed": 1,
        "dataset_kwargs": {},
        "pad_seq_to_mult": multiple,
    }
    module.tokenize_dataset(**{name: value for name, value in given.items() if name in asked})
    return None
