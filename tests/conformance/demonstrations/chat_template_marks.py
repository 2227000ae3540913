"""A chat template without a generation block: 0.3 and 0.4 train on every token, 0.5 refuses."""

from upstream import Tokenizer, first

RULES = ("DAT147",)
RELEASES = ("0.3", "0.4", "0.5")
EXPECTED = ("ValueError",)


class Chat(Tokenizer):
    """Four tokens of a question, two of an answer; the template marks the answer or does not."""

    def __init__(self, marked: bool) -> None:
        self.chat_template = "{% generation %}{% endgeneration %}" if marked else "{{ messages }}"
        self._tokenizer = self

    def apply_chat_template(self, messages, return_assistant_tokens_mask=False, **more):
        found = {"input_ids": [11, 12, 13, 14, 21, 2]}
        return {**found, "assistant_masks": [0, 0, 0, 0, 1, 1]} if return_assistant_tokens_mask else found


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.datasets.utils")
    source = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    mask = [int(value) for value in module._chat_preprocess(source, Chat(good), None)["loss_mask"]]
    return f"{sum(mask)} of {len(mask)} tokens carry loss, the answer has 2" if sum(mask) > 2 else None
