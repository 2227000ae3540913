"""Answers: their names and kinds, what people write for them, and the answers file.

An answer has the name of its flag (``--seq-length`` is ``seq_length``) and one of these kinds: a word out of a fixed
list, free text, a positive whole number, a number that may be "none", or yes/no.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mbpack.facts.gpus import GPUS
from mbpack.facts.modes import MODES

WORD, TEXT, COUNT, MAYBE_COUNT, YES_NO = "word", "text", "count", "count or none", "yes or no"
AUTO = "auto"

PRETRAIN, SFT, LORA, DORA = "pretrain", "sft", "lora", "dora"
TEXT_MODALITY, VLM = "text", "vlm"
JSONL, CHAT, HF, ENERGON_DATA, INDEXED = "jsonl", "chat", "hf", "energon", "indexed"
NO_GRAPHS, MLP, ATTN, FULL_ITERATION = "none", "mlp", "attn", "full_iteration"
RUN_RECIPE, SCRIPT = "run_recipe", "script"


class AnswerError(ValueError):
    """An answer that cannot be used; the message says what was given and what is allowed."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What an answer may be. ``words`` are the allowed words, ``synonyms`` other spellings of them."""

    kind: str
    words: tuple[str, ...] = ()
    synonyms: Mapping[str, str] | None = None


_DATA_SYNONYMS = {
    "prompt_completion": JSONL,
    "jsonl_prompt_completion": JSONL,
    "jsonl_chat": CHAT,
    "chat_jsonl": CHAT,
    "hf_dataset": HF,
    "huggingface": HF,
    "hugging_face": HF,
    "webdataset": ENERGON_DATA,
    "energon_webdataset": ENERGON_DATA,
    "mock": INDEXED,
    "megatron_indexed": INDEXED,
}
_WORKLOAD_SYNONYMS = {"finetune": SFT, "full": SFT, "peft": LORA, "pretraining": PRETRAIN, "pretrain_long_context": PRETRAIN}

KINDS: dict[str, Kind] = {
    "bridge": Kind(TEXT),
    "launcher": Kind(WORD, (SCRIPT, RUN_RECIPE), {"run_recipe.py": RUN_RECIPE}),
    "workload": Kind(WORD, (SFT, LORA, DORA, PRETRAIN), _WORKLOAD_SYNONYMS),
    "modality": Kind(
        WORD, (TEXT_MODALITY, VLM), {"vision": VLM, "vision_language": VLM, "image": VLM, "multimodal": VLM, "llm": TEXT_MODALITY}
    ),
    "family": Kind(TEXT),
    "size": Kind(TEXT),
    "recipe": Kind(TEXT),
    "data": Kind(WORD, (JSONL, CHAT, HF, ENERGON_DATA, INDEXED), _DATA_SYNONYMS),
    "data_path": Kind(TEXT),
    "checkpoint": Kind(TEXT),
    "gpus": Kind(COUNT),
    "gpu": Kind(WORD, tuple(GPUS), {"h100": "h100-80gb", "a100": "a100-80gb"}),
    "tp": Kind(COUNT),
    "pp": Kind(COUNT),
    "vpp": Kind(MAYBE_COUNT),
    "cp": Kind(COUNT),
    "ep": Kind(COUNT),
    "etp": Kind(MAYBE_COUNT),
    "sp": Kind(YES_NO),
    "seq_length": Kind(COUNT),
    "long_samples": Kind(YES_NO),
    "packing": Kind(WORD, (AUTO, *MODES), {"inbatch": "in_batch", "globalbatch": "global_batch", "off": "none"}),
    "mbs": Kind(COUNT),
    "gbs": Kind(COUNT),
    "token_slots": Kind(COUNT),
    "mean_length": Kind(COUNT),
    "cuda_graphs": Kind(
        WORD, (NO_GRAPHS, MLP, ATTN, FULL_ITERATION), {"attention": ATTN, "full": FULL_ITERATION, "off": NO_GRAPHS}
    ),
    "buffer": Kind(COUNT),
}

_YES, _NO = ("yes", "y", "true", "on", "1"), ("no", "n", "false", "off", "0")
_NONE = ("none", "null", "no", "off", "0", "1", "")
_NUMBER = re.compile(r"(\d[\d_,]*)\s*([kKmM]?)$")
_UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}


def flag(name: str) -> str:
    """The command-line flag of an answer."""
    return "--" + name.replace("_", "-")


def coerce(name: str, value: Any) -> Any:
    """A value as this answer keeps it: words in their own spelling, numbers as int, None for "none".

    Numbers may be written ``8192``, ``8_192``, ``8,192`` or ``8k`` (8 x 1024).

    Raises:
        AnswerError: when it cannot be one.
    """
    kind = KINDS[name]
    if name == "data_path" and (value is None or str(value).strip().lower() == "none"):
        return None  # the recipe's own data
    if kind.kind == WORD:
        return _word(name, kind, value)
    if kind.kind == TEXT:
        text = str(value).strip() if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
        if not text or any(not sign.isprintable() for sign in text):
            raise AnswerError(f"{name}: {value!r} is no usable text")
        return text
    if kind.kind == YES_NO:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in _YES or word in _NO:
            return word in _YES
        raise AnswerError(f"{name}: {value!r} is neither yes nor no")
    if kind.kind == MAYBE_COUNT and (value is None or str(value).strip().lower() in _NONE) and name == "vpp":
        return None
    if kind.kind == MAYBE_COUNT and (value is None or str(value).strip().lower() in ("none", "null", "")):
        return None
    return _count(name, value)


def _word(name: str, kind: Kind, value: Any) -> str:
    if value is None or isinstance(value, bool):
        value = "none" if value in (None, False) else "yes"  # YAML reads `none` as text but `off` as text, `~` as null
    word = str(value).strip().lower().replace("-", "_").replace(" ", "_")
    word = (kind.synonyms or {}).get(word, word)
    for known in kind.words:
        if word in (known, known.replace("-", "_")):
            return known
    near = difflib.get_close_matches(word, kind.words, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise AnswerError(f"{name}: {value!r} is not one of {', '.join(kind.words)}{hint}")


#: More than the doctor takes for a number of GPUs.
MOST_GPUS = 999_999_999


def _count(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        match = _NUMBER.match(str(value).strip())
        if not match:
            negative = _NUMBER.match(str(value).strip().removeprefix("-")) is not None
            raise AnswerError(f"{name}: {value!r} {'must be positive' if negative else 'is no whole number'}")
        number = int(match[1].replace("_", "").replace(",", "")) * _UNITS[match[2].lower()]
    if number < 1:
        raise AnswerError(f"{name}: {value!r} must be positive")
    if number > (MOST_GPUS if name == "gpus" else 10**12):
        raise AnswerError(f"{name}: {value!r} is too large")
    return number


def read(text: str, where: str) -> dict[str, Any]:
    """The answers of an answers file.

    Raises:
        AnswerError: with the file and line, for YAML that cannot be read, an unknown name or an unusable value.
    """
    from mbpack.config.document import Interpolation, parse

    document = parse(text, where)
    fatal = next((problem for problem in document.problems if problem.fatal), None)
    if fatal is not None or document.root is None:
        line = fatal.span.line if fatal is not None else 1
        raise AnswerError(f"{where}:{line}: {fatal.message if fatal is not None else 'no mapping of answers'}")
    answers: dict[str, Any] = {}
    for key, item in document.root.value.items():
        line = item.key.line if item.key is not None else item.span.line
        name = str(key).strip().replace("-", "_")
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(KINDS)}"
            raise AnswerError(f"{where}:{line}: `{key}` is no question of mbpack init{hint}")
        value = str(item.value) if isinstance(item.value, Interpolation) else item.value
        if isinstance(value, (dict, list)):
            raise AnswerError(f"{where}:{line}: {name} takes one value")
        try:
            answers[name] = coerce(name, value)
        except AnswerError as error:
            raise AnswerError(f"{where}:{line}: {error}") from None
    return answers


def written(answers: Mapping[str, Any]) -> list[str]:
    """Names of the answers that are written down, in the order of :data:`KINDS`: no path is the recipe's own data."""
    return [name for name in KINDS if name in answers and (name != "data_path" or answers[name] is not None)]


def write(answers: Mapping[str, Any]) -> str:
    """An answers file, in the order of :data:`KINDS`."""
    from mbpack.wizard.yaml_text import scalar

    lines = ["# Answers of `mbpack init`; replay them with `mbpack init --answers FILE`."]
    lines += [f"{name}: {scalar(answers[name])}" for name in written(answers)]
    return "\n".join(lines) + "\n"
