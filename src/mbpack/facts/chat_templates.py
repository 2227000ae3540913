"""Whether the chat template that a model is published with marks the answers by a generation block."""

from __future__ import annotations

from typing import Final

from mbpack.facts.patterns import lazy

#: The mark upstream looks for. Source: 0.3 to 0.6 ``data/datasets/utils.py``, ``GENERATION_REGEX``.
GENERATION: Final = lazy(r"\{%-?\s+generation\s+-?%\}")

#: Publishers and names of models by their beginning. The templates without are those of the model cards as published.
_WITHOUT: Final = (
    "Qwen/",
    "meta-llama/",
    "mistralai/",
    "nvidia/",
    "google/gemma",
    "deepseek-ai/",
    "moonshotai/",
    "zai-org/",
)
_WITH: Final = ("HuggingFaceTB/SmolLM3",)


def has_generation_block(name: str | None) -> bool | None:
    """Whether a model's published template has the block, None where that is not known.

    >>> has_generation_block("Qwen/Qwen3-8B"), has_generation_block("HuggingFaceTB/SmolLM3-3B"), has_generation_block("a/b")
    (False, True, None)
    """
    if name is None:
        return None
    if name.startswith(_WITH):
        return True
    return False if name.startswith(_WITHOUT) else None
