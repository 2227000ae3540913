"""Up to 0.5 conversations are tensors, to which the padding to a multiple adds a list."""

from upstream import Tokenizer, first

RULES = ("DAT128",)
RELEASES = ("0.3", "0.4", "0.5")
EXPECTED = ("TypeError",)


class Samples(list):  # type: ignore[type-arg]
    tokenizer = Tokenizer()
    max_seq_length = 16
    pad_seq_length_to_mult = 4


def trial(good: bool) -> str | None:
    import inspect

    import torch

    module = first("megatron.bridge.data.datasets.packed_sequence")
    ids = torch.tensor([5, 6, 7, 8, 9, 2])
    sample = {"input_ids": ids, "context_ids": ids[:2], "answer_ids": ids[2:], "loss_mask": torch.ones(6)}
    module.create_sft_dataset = lambda **more: Samples([dict(sample)])
    asked = inspect.signature(module.tokenize_dataset).parameters
    given = {"path": "x", "tokenizer": Tokenizer(), "max_seq_length": 16, "seed": 1, "dataset_kwargs": {"chat": True}}
    given["pad_seq_to_mult"] = 1 if good else 4
    module.tokenize_dataset(**{name: value for name, value in given.items() if name in asked})
    return None
