"""A model's config.json as a shape: the parameters are those of the public model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.facts.shapes import shape_of
from mbpack.memory.hf_config import read_config
from mbpack.memory.parameters import total
from mbpack.memory.sizes import NotModelled


def _config(
    kind: str, layers: int, hidden: int, heads: int, groups: int, ffn: int, vocab: int, **more: object
) -> dict[str, object]:
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size")
    return {"model_type": kind, **dict(zip(names, (layers, hidden, heads, groups, ffn, vocab), strict=True)), **more}


LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
CASES = {
    "meta-llama/Llama-3.2-1B": _config("llama", 16, 2048, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True),
    "Qwen/Qwen2.5-7B": _config("qwen2", 28, 3584, 28, 4, 18944, 152064, tie_word_embeddings=False),
    "Qwen/Qwen3-8B": _config("qwen3", 36, 4096, 32, 8, 12288, 151936, head_dim=128, attention_bias=False),
    "Qwen/Qwen3-30B-A3B": _config(
        "qwen3_moe", 48, 2048, 32, 4, 6144, 151936, head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768
    ),
    "mistralai/Mixtral-8x7B-v0.1": _config("mixtral", 32, 4096, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2),
    "google/gemma-2-9b": _config("gemma2", 42, 3584, 16, 8, 14336, 256000, head_dim=256),
    "openai/gpt-oss-20b": _config(
        "gpt_oss", 24, 2880, 64, 8, 2880, 201088, head_dim=64, num_local_experts=32, num_experts_per_tok=4, attention_bias=True
    ),
    "deepseek-ai/DeepSeek-V3": _config(
        "deepseek_v3", 61, 7168, 128, 128, 18432, 129280, q_lora_rank=1536, n_routed_experts=256, num_experts_per_tok=8,
        moe_intermediate_size=2048, n_shared_experts=1, first_k_dense_replace=3, num_nextn_predict_layers=1, **LATENT,
    ),
    "deepseek-ai/DeepSeek-V2-Lite": _config(
        "deepseek_v2", 27, 2048, 16, 16, 10944, 102400, q_lora_rank=None, n_routed_experts=64, num_experts_per_tok=6,
        moe_intermediate_size=1408, n_shared_experts=2, first_k_dense_replace=1, **LATENT,
    ),
    "zai-org/GLM-4.5-Air": _config(
        "glm4_moe", 46, 4096, 96, 8, 10944, 151552, head_dim=128, attention_bias=True, n_routed_experts=128, num_experts_per_tok=8,
        moe_intermediate_size=1408, n_shared_experts=1, first_k_dense_replace=1, num_nextn_predict_layers=1, use_qk_norm=False,
    ),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": _config(
        "qwen3_next", 48, 2048, 16, 2, 5120, 151936, head_dim=256, num_experts=512, num_experts_per_tok=10, moe_intermediate_size=512,
        shared_expert_intermediate_size=512, linear_num_key_heads=16, linear_num_value_heads=32, num_nextn_predict_layers=1,
    ),
    "allenai/OLMoE-1B-7B-0125": _config("olmoe", 16, 2048, 16, 16, 1024, 50304, num_experts=64, num_experts_per_tok=8),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_parameters_are_those_of_the_public_model(name: str) -> None:
    known = shape_of(name)
    assert known is not None
    assert total(read_config(CASES[name], "config.json")) == known.computed


def test_a_text_model_inside_a_larger_one_is_read_and_its_encoder_said() -> None:
    outer = {
        "model_type": "gemma3",
        "vision_config": {},
        "text_config": _config("gemma3_text", 34, 2560, 8, 4, 10240, 262208, head_dim=256),
    }
    found = read_config(outer, "config.json")
    known = shape_of("google/gemma-3-4b-it")
    assert known is not None
    assert (total(found), found.encoder) == (known.computed, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 50) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*CASES["deepseek-ai/DeepSeek-V3"], "text_config"]), inner)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(sorted(CASES)))
def test_any_json_is_a_shape_or_refused_in_one_line(data: object, name: str) -> None:
    merged = {**CASES[name], **data} if isinstance(data, dict) else data
    said = ""
    try:
        total(read_config(merged, "config.json"))
    except NotModelled as refused:
        said = str(refused)
    assert "\n" not in said
