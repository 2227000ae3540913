"""The dataset's constructor does not know a chat template."""

from upstream import FIELDS, Tokenizer, first

RULES = ("DAT130",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("TypeError",)


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.datasets.gpt_sft", "megatron.bridge.data.datasets.sft")

    class Rows(module.GPTSFTDataset):  # type: ignore[misc, name-defined]
        def _load_dataset(self) -> None:
            self.indexed_dataset = []

    Rows("x.jsonl", Tokenizer(), **FIELDS, **({} if good else {"chat_template": "{{ messages }}"}))
    return None
