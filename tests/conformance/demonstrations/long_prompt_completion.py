"""A prompt-completion row above the limit is cut without a word."""

from upstream import FIELDS, Tokenizer, first

RULES = ("DAT149",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.datasets.gpt_sft", "megatron.bridge.data.datasets.sft")

    class Rows(module.GPTSFTDataset):  # type: ignore[misc, name-defined]
        def _load_dataset(self) -> None:
            self.indexed_dataset = []

    data = Rows("x.jsonl", Tokenizer(), max_seq_length=64 if good else 16, **FIELDS)
    found = data._process_example({"input": " ".join(["word"] * 30), "output": "an answer"})
    return None if len(found["input_ids"]) >= 32 else f"{len(found['input_ids'])} of 33 tokens are left"
