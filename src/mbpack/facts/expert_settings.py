"""What Megatron-Core takes as settings of expert layers, per release.

Source: Megatron-Core 0.16 to 0.19 `transformer/transformer_config.py`, `TransformerConfig.__post_init__`.
"""

from __future__ import annotations

#: Sizes of experts that the recipe data leave out where a Hugging Face configuration decides them.
LEFT_OUT = ("model.moe_ffn_hidden_size", "model.moe_shared_expert_intermediate_size")
