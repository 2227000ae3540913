"""A model's `config.json` (Hugging Face) as a shape.

Only model types whose layers are known are read; another one is refused by name rather than counted wrongly. Sources: the
conversions of Megatron-Bridge 0.6 (`models/*/..._bridge.py`) for which field becomes which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mbpack.facts.shapes import Shape
from mbpack.memory.sizes import NotModelled

#: Model types that are read, with what their configurations do not say themselves.
_TYPES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "mistral3": {},
    "ministral3": {},
    "mixtral": {},
    "qwen2": {"add_qkv_bias": True},
    "qwen2_moe": {"add_qkv_bias": True, "moe_shared_expert_gate": True},
    "qwen2_5_vl": {"add_qkv_bias": True},
    "qwen2_5_vl_text": {"add_qkv_bias": True},
    "qwen3": {"qk_layernorm": True},
    "qwen3_vl_text": {"qk_layernorm": True},
    "qwen3_vl_moe_text": {"qk_layernorm": True},
    "qwen3_next": {"qk_layernorm": True, "attention_output_gate": True, "moe_shared_expert_gate": True},
    "qwen3_moe": {"qk_layernorm": True},
    "gemma": {"activation": "gelu"},
    "gemma2": {"activation": "gelu", "norms_extra": 2},
    "gemma3_text": {"activation": "gelu", "norms_extra": 2, "qk_layernorm": True},
    "deepseek_v2": {},
    "deepseek_v3": {},
    "kimi_k2": {},
    "glm4": {"norms_extra": 2},
    "glm4_moe": {},
    "gpt_oss": {
        "add_bias_linear": True,
        "activation": "quick_gelu",
        "activation_clamped": True,
        "softmax_offset_learnable": True,
    },
    "olmoe": {"qk_layernorm": True, "qk_norm_whole": True},
    "minimax_m2": {"qk_layernorm": True},
}
#: Types whose word embeddings are the output layer's too where the file does not say otherwise.
_TIED = frozenset({"gemma", "gemma2", "gemma3_text"})


def read_config(data: Any, name: str) -> Shape:
    """The shape in a parsed config.json; `name`: how messages call it.

    Raises:
        NotModelled: it is no model configuration, its type is not known here, or a size is missing or no whole number.
    """
    if not isinstance(data, Mapping):
        raise NotModelled(f"{name}: no model configuration: a JSON object is expected")
    encoder = None
    text = data.get("text_config")
    if isinstance(text, Mapping):
        encoder = 0 if any(key in data for key in ("vision_config", "audio_config")) else None
        data = {**{key: data[key] for key in ("tie_word_embeddings",) if key in data}, **text}
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise NotModelled(f"{name}: model type {kind!r} is not one whose layers are modelled ({', '.join(sorted(_TYPES))})")
    reader = _File(data, name)
    heads, hidden = reader.size("num_attention_heads"), reader.size("hidden_size")
    values: dict[str, Any] = {
        "num_layers": reader.size("num_hidden_layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_query_groups": reader.size("num_key_value_heads", heads),
        "kv_channels": reader.size("head_dim", hidden // heads),
        "ffn_hidden_size": reader.size("intermediate_size"),
        "vocab_size": reader.size("vocab_size"),
        "share_embeddings_and_output_weights": bool(data.get("tie_word_embeddings", kind in _TIED)),
        **_TYPES[kind],
        **_attention(reader, kind),
        **_experts(reader, kind),
        **_linear(reader),
    }
    values["mtp_num_layers"] = reader.size("num_nextn_predict_layers", 0)
    return Shape(name=name, encoder=encoder, **values)


class _File:
    """The fields of a file, as whole numbers."""

    def __init__(self, data: Mapping[str, Any], name: str) -> None:
        self.data, self.name = data, name

    def size(self, key: str, otherwise: int | None = None) -> int:
        value = self.data.get(key)
        if value is None and otherwise is not None:
            return otherwise
        if value.__class__ is not int or not 0 <= value < 1 << 40 or (value == 0 and otherwise is None):
            raise NotModelled(f"{self.name}: {key} is {'missing' if value is None else 'no size'}")
        return int(value)


def _attention(reader: _File, kind: str) -> dict[str, Any]:
    data = reader.data
    if data.get("kv_lora_rank") is None:
        bias = data.get("attention_bias")
        return {"add_qkv_bias": bool(bias)} if bias is not None and kind not in ("gpt_oss",) else {}
    return {
        "multi_latent_attention": True,
        "qk_layernorm": True,
        "q_lora_rank": reader.size("q_lora_rank", 0),
        "kv_lora_rank": reader.size("kv_lora_rank"),
        "qk_head_dim": reader.size("qk_nope_head_dim"),
        "qk_pos_emb_head_dim": reader.size("qk_rope_head_dim"),
        "v_head_dim": reader.size("v_head_dim"),
        "num_query_groups": reader.size("num_attention_heads"),
        "kv_channels": reader.size("v_head_dim"),
    }


def _linear(reader: _File) -> dict[str, Any]:
    """Layers of a gated delta net between those with full attention."""
    if reader.data.get("linear_num_key_heads") is None:
        return {}
    names = ("linear_num_key_heads", "linear_num_value_heads")
    found = {name: reader.size(name) for name in names}
    found["linear_key_head_dim"] = reader.size("linear_key_head_dim", 128)
    found["linear_value_head_dim"] = reader.size("linear_value_head_dim", 128)
    found["linear_attention_freq"] = reader.size("full_attention_interval", 4)
    return found


def _experts(reader: _File, kind: str) -> dict[str, Any]:
    data = reader.data
    names = ("n_routed_experts", "num_local_experts", "num_experts")
    number = next((reader.size(name) for name in names if data.get(name)), 0)
    if not number:
        return {}
    width = reader.size("moe_intermediate_size", reader.size("intermediate_size"))
    shared = reader.size("shared_expert_intermediate_size", 0) or width * reader.size("n_shared_experts", 0)
    found: dict[str, Any] = {
        "num_moe_experts": number,
        "moe_router_topk": reader.size("num_experts_per_tok"),
        "moe_ffn_hidden_size": width,
        "moe_shared_expert_intermediate_size": shared,
        "dense_first": reader.size("first_k_dense_replace", 0),
    }
    if kind == "glm4_moe":
        found["qk_layernorm"] = bool(data.get("use_qk_norm", False))
    return found
