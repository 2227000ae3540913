"""Attention: layers without rotary embeddings, FlashAttention versions, gates, latent attention, fields of its variants."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, violation

_ENUM = "megatron.core.transformer.enums.AttnBackend"


@violation()
def no_rope(d: Draft) -> None:
    layers = d.layers
    d.model["no_rope_freq"] = pick(d, 2, layers, layers + 1, 3, 0, None, [0, 1], [0, 1] * (layers // 2), 4.0, -2, True, "a", [])
    if d.rng.random() < 0.3:
        d.model["flash_decode"] = pick(d, True, False)


@violation()
def batch_invariant(d: Draft) -> None:
    d.model["batch_invariant_mode"] = pick(d, True, True, False)
    if d.rng.random() < 0.8:
        flash = {"_target_": _ENUM, "_call_": True, "_args_": [1]}
        by_name = {"_target_": f"{_ENUM}.{pick(d, 'flash', 'auto')}", "_call_": False}
        d.model["attention_backend"] = pick(d, flash, flash, flash, flash | {"_args_": [5]}, by_name, "flash", None)
    if d.names.minor > 5 and d.rng.random() < 0.7:
        d.model["flash_attention_version"] = pick(d, 3, 4, 2, 1, None, "3", 3.0)
    if d.rng.random() < 0.5:
        d.model["attention_dropout"] = pick(d, 0.0, 0, 0.1, None)


@violation()
def rope_and_gate(d: Draft) -> None:
    choices = {
        "fused_single_qkv_rope": (True, False),
        "attention_output_gate": (True, False),
        "multi_latent_attention": (True, False),
        "rotary_interleaved": (True, False),
    }
    if d.kind == "mla":
        choices |= {"cache_mla_latents": (True, False), "rope_type": ("rope", "yarn", None), "apply_rope_fusion": (True, False)}
    for key in d.rng.sample(sorted(choices), pick(d, 2, 3)):
        d.model[key] = pick(d, *choices[key])


@violation()
def attention_variant(d: Draft) -> None:
    if d.rng.random() < 0.4:
        d.model["experimental_attention_variant"] = "gated_delta_net"
        d.model["linear_attention_freq"] = pick(d, 4, [1] * d.layers, 0, None, None)
        return
    d.model["experimental_attention_variant"] = pick(d, "dsa", "dsa", "dsa", None)
    choices = {"add_bias_linear": (True, False, None)}
    if d.names.minor > 5:
        d.model["add_bias_linear"] = False
        choices |= {
            "dsa_kernel_backend": ("none", "triton", None),
            "dsa_indexer_topk_freq": (1, 4, 0, 0.5, None),
            "dsa_indexer_skip_topk_offset": (0, 2, -1, None),
        }
    for key in d.rng.sample(sorted(choices), pick(d, 0, 1, 1, 2) % (len(choices) + 1)):
        d.model[key] = pick(d, *choices[key])
