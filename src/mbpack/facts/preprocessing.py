"""What the old keys of ``dataset_kwargs`` mean as ``dataset.preprocessing`` (0.6 and later).

Source: 0.6 ``data/builders/gpt_sft.py``, ``normalize_gpt_sft_dataset_kwargs`` and ``_default_gpt_sft_preprocessing`` (what
upstream itself takes for equal); ``data/sft_processing.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mbpack.facts.patterns import lazy

#: Keys of ``dataset_kwargs`` whose meaning moved to ``dataset.preprocessing`` in 0.6.
SEMANTIC_KWARGS: Final = frozenset(
    "add_bos add_eos add_sep answer_only_loss chat chat_loss_mode label_key prompt_completion_config prompt_template "
    "truncation_field truncation_method use_hf_tokenizer_chat_template".split()
)
CHAT_CLASS, COMPLETION_CLASS = "ChatSFTPreprocessingConfig", "PromptCompletionSFTPreprocessingConfig"

#: The values of keys that are not given, where rows are prompts and completions.
_DEFAULTS: Final = {
    "label_key": "output",
    "truncation_field": "input",
    "prompt_template": "{input} {output}",
    "truncation_method": "right",
    "add_bos": False,
    "add_sep": False,
    "add_eos": True,
    "answer_only_loss": True,
}
#: A template of which upstream says that a prompt, a blank and a completion are the same.
_PLAIN_TEMPLATE = lazy(r"\{(\w+)\} \{(\w+)\}")


class Preprocessing(NamedTuple):
    """A preprocessing class by name and the fields that differ from its defaults."""

    class_name: str
    fields: Mapping[str, Any]


def preprocessing_of(kwargs: Mapping[str, Any], hub: bool) -> Preprocessing | str:
    """The preprocessing that does what old keys did, or why there is none.

    ``kwargs`` are plain values; keys without a meaning for preprocessing do not matter. ``hub``: the data come from the
    Hugging Face hub, whose rows are chats unless the keys say otherwise.
    """
    given = {key: value for key, value in kwargs.items() if key in SEMANTIC_KWARGS}
    if "prompt_completion_config" in given:
        return "prompt_completion_config is an object, which no file gives"
    if given.get("chat", hub) is True:
        return _chat(given, hub)
    return _completion(given)


def _chat(given: Mapping[str, Any], hub: bool) -> Preprocessing | str:
    if given.get("use_hf_tokenizer_chat_template", hub) is not True:
        return "chats rendered with special tokens instead of the tokenizer's template have no preprocessing of their own"
    other = [key for key, usual in _DEFAULTS.items() if key in given and given[key] != usual]
    if other:
        return f"{other[0]} has no meaning for chats"
    return Preprocessing(CHAT_CLASS, {"loss_mode": given.get("chat_loss_mode", "assistant")})


def _completion(given: Mapping[str, Any]) -> Preprocessing | str:
    values = {**_DEFAULTS, **given}
    template = values["prompt_template"]
    found = _PLAIN_TEMPLATE.fullmatch(template) if isinstance(template, str) else None
    if found is None:
        return f"the prompt_template {template!r} is more than a prompt, a blank and a completion: compare the tokens"
    prompt, completion = found.groups()
    if values["label_key"] != completion or values["truncation_field"] != prompt:
        return "label_key or truncation_field names another column than the template"
    fields: dict[str, Any] = {"prompt_column": prompt, "completion_column": completion, "separator": " "}
    fields |= {name: values[name] for name in ("add_bos", "add_sep", "add_eos", "truncation_method") if name in given}
    fields["loss_mode"] = "completion" if values["answer_only_loss"] is True else "full"
    return Preprocessing(COMPLETION_CLASS, fields)


def kwargs_of(class_name: str, fields: Mapping[str, Any]) -> dict[str, Any] | str:
    """The old keys that do what a preprocessing does, or why there are none; the way back."""
    if class_name == CHAT_CLASS:
        mode = fields.get("loss_mode", "assistant")
        if mode != "assistant":
            return f"loss_mode {mode} has no key before 0.6"
        return {"chat": True, "use_hf_tokenizer_chat_template": True}
    if class_name != COMPLETION_CLASS:
        return f"{class_name} has no keys before 0.6"
    if fields.get("separator", "") != " " or "prompt_template" in fields or fields.get("strip_whitespace", True) is not True:
        return "the prompt is put together in another way than before 0.6: compare the tokens"
    prompt, completion = fields.get("prompt_column", "prompt"), fields.get("completion_column", "completion")
    found = {"prompt_template": f"{{{prompt}}} {{{completion}}}", "label_key": completion, "truncation_field": prompt}
    found |= {name: fields[name] for name in ("add_bos", "add_sep", "add_eos", "truncation_method") if name in fields}
    if fields.get("loss_mode", "completion") == "full":
        found["answer_only_loss"] = False
    return {name: value for name, value in found.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}
