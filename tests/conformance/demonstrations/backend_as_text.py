"""An attention backend given as text chooses nothing."""

import os

from upstream import Self, first

RULES = ("ATN101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6")


def trial(good: bool) -> str | None:
    enums = first("megatron.core.transformer.enums")
    module = first("megatron.core.models.common.language_module.language_module")
    names = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN")
    for name in names:
        os.environ.pop(name, None)
    chosen = enums.AttnBackend.fused if good else "fused"
    module.LanguageModule._set_attention_backend(Self(config=Self(attention_backend=chosen, flash_attention_version=None)))
    told = {name: os.environ.pop(name, None) for name in names}
    return None if told["NVTE_FUSED_ATTN"] == "1" else "Transformer Engine is told nothing"
