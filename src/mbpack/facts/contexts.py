"""The context length a model was trained with, as its public card gives it (scaling that the card has is in it).

Recalled from the public model cards (`max_position_embeddings`). Models without rotary positions (Mamba hybrids) have no such
limit and are not here.
"""

from __future__ import annotations

import re
from typing import Final

from mbpack.facts.patterns import lazy

#: Beginning of a hub name -> tokens, the longer beginning first where one contains another.
_TOKENS: Final = (
    ("meta-llama/Meta-Llama-3-", 8192),
    ("meta-llama/Llama-2", 4096),
    ("meta-llama/", 131072),
    ("Qwen/Qwen3-Next", 262144),
    ("Qwen/Qwen3-VL", 262144),
    ("Qwen/Qwen3-Omni", 65536),
    ("Qwen/Qwen3.5", 262144),
    ("Qwen/Qwen3-", 40960),
    ("Qwen/Qwen2.5-VL", 128000),
    ("Qwen/Qwen2.5-0.5B", 32768),
    ("Qwen/Qwen2.5-3B", 32768),
    ("Qwen/Qwen2.5-", 131072),
    ("Qwen/Qwen2-Audio", 8192),
    ("Qwen/Qwen2-", 131072),
    ("google/gemma-2", 8192),
    ("google/gemma-3-1b", 32768),
    ("google/gemma-3", 131072),
    ("moonshotai/Moonlight", 8192),
    ("moonshotai/Kimi-K2", 131072),
    ("deepseek-ai/DeepSeek-V2", 163840),
    ("deepseek-ai/DeepSeek-V3", 163840),
    ("openai/gpt-oss", 131072),
    ("allenai/OLMoE", 4096),
    ("zai-org/GLM-4.5", 131072),
    ("mistralai/Ministral-3", 262144),
    ("LGAI-EXAONE/EXAONE-4.0-1.2B", 65536),
)
#: A recipe's name where the data hold no hub name of its model.
_RECIPES: Final = (
    (r"llama3_(8b|70b)_", 8192),
    (r"llama2_", 4096),
    (r"llama3[12]_", 131072),
    (r"qwen3_(600m|1p7b|4b|8b|14b|32b|30b_a3b|235b_a22b)_", 40960),
    (r"gemma2_", 8192),
    (r"moonlight_", 8192),
    (r"olmoe_", 4096),
)
#: Long-context recipes that upstream builds on a model of another context: their authors changed the positions.
_EXTENDED: Final = lazy(r"llama3_\w+_(16k|64k|128k)_|low_precision")


def context_of(hub_name: str | None, recipe: str | None) -> int | None:
    """Tokens of context the model was trained with, None where that is not known.

    >>> context_of("Qwen/Qwen3-8B", None), context_of(None, "llama3_8b_sft_config"), context_of("a/b", None)
    (40960, 8192, None)
    """
    if recipe is not None and _EXTENDED.search(recipe):
        return None
    for beginning, tokens in _TOKENS if hub_name is not None else ():
        if hub_name is not None and hub_name.startswith(beginning):
            return tokens
    for pattern, tokens in _RECIPES if recipe is not None else ():
        if recipe is not None and re.match(pattern, recipe.removeprefix("perf:")):
            return tokens
    return None
