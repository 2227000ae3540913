"""What attention must have by its variant: batch invariance, gates, latent attention, gated delta net, sparse attention."""

from __future__ import annotations

from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import Rule
from mbpack.rules.worded import Mend, Said, Worded

INIT, _LATENT = "TransformerConfig.__post_init__", "MLATransformerConfig.__post_init__"
_DEEPSEEK = "recipe=deepseek_v2_lite_pretrain_config gpus=8"
_POSITION = "Its keys carry the position in a part of their own, which only some of the kernels handle."


def _invariant(key: str, what: str) -> Said:
    return Said(
        f"batch_invariant_mode {what}",
        f"{key} batch_invariant_mode",
        "The mode gives every row the same result whatever stands beside it, which other kernels do not promise.",
        {"batch_invariant_mode": False},
    )


def _sparse(key: str, says: str, why: str, fix: Mend) -> Said:
    return Said(says, f"{key} experimental_attention_variant", why, fix)


_ANEW = "It says on which layers the indexer chooses tokens anew."

RULES: tuple[Rule, ...] = (
    Worded(
        "ATN107",
        "attn/batch-invariant",
        INIT,
        "Batch invariant mode runs on FlashAttention; from 0.6 on in a version that is named, without context parallelism or dropout.",
        {
            "flash_attention_version": Said(
                "flash_attention_version must be 2, 3 or 4, found {flash_attention_version}",
                "flash_attention_version",
                fix={"flash_attention_version": None},
                other="to take what is installed",
            ),
            "attention_backend if batch_invariant_mode": _invariant(
                "attention_backend", "needs attention_backend flash, a member of AttnBackend"
            ),
            "flash_attention_version if batch_invariant_mode": _invariant(
                "flash_attention_version", "needs flash_attention_version 3 or 4, found {flash_attention_version}"
            ),
            "context_parallel_size if batch_invariant_mode": _invariant(
                "context_parallel_size", "does not run with context parallel {context_parallel_size}"
            ),
            "attention_dropout if batch_invariant_mode": _invariant(
                "attention_dropout", "needs attention_dropout 0.0, found {attention_dropout}"
            ),
        },
        {"batch_invariant_mode": True, "attention_backend": "flash", "flash_attention_version": 3},
        {"flash_attention_version": 1},
        good={"batch_invariant_mode": False},
        text="The backend must arrive as a member of `AttnBackend`: the text `flash` is not one. `flash_attention_version` (0.6 and\n"
        "later) is 2, 3 or 4; the mode needs 3 or 4, whose kernels always split the work in the same way.",
    ),
    Worded(
        "ATN108",
        "attn/gated-rope",
        INIT,
        "The fused rotary embedding of queries, keys and values does not know attention with an output gate.",
        {
            "attention_output_gate if fused_single_qkv_rope": Said(
                "fused_single_qkv_rope does not go with attention_output_gate",
                "fused_single_qkv_rope attention_output_gate",
                "The queries then hold the gate as well, which the fused kernel would rotate with them.",
                {"fused_single_qkv_rope": False},
                safe=True,
            )
        },
        {"fused_single_qkv_rope": True},
        on="recipe=qwen3_next_80b_a3b_sft_config gpus=64",
    ),
    Worded(
        "MLA101",
        "mla/rope-and-gate",
        _LATENT,
        "Multi-latent attention has no interleaved rotary embeddings and no output gate, and fuses them for YaRN only.",
        {
            f"{INIT}:multi_latent_attention+rotary_interleaved": Said(
                "rotary_interleaved does not go with multi_latent_attention",
                "rotary_interleaved multi_latent_attention",
                _POSITION,
                {"rotary_interleaved": False},
            ),
            "apply_rope_fusion+multi_latent_attention+rope_type": Said(
                "apply_rope_fusion in multi-latent attention needs rope_type yarn, found {rope_type}",
                "rope_type apply_rope_fusion multi_latent_attention",
                _POSITION,
                {"apply_rope_fusion": False},
                safe=True,
            ),
            "attention_output_gate": Said(
                "attention_output_gate does not go with a model of multi-latent attention",
                "attention_output_gate",
                _POSITION,
                {"attention_output_gate": False},
            ),
            "apply_rope_fusion if cache_mla_latents": Said(
                "cache_mla_latents needs apply_rope_fusion: false",
                "cache_mla_latents apply_rope_fusion",
                _POSITION,
                {"apply_rope_fusion": False},
                safe=True,
            ),
        },
        {"rotary_interleaved": True},
        {"apply_rope_fusion": True, "rope_type": "rope"},
        on=_DEEPSEEK,
        text="The class of the model decides about the gate, the kind of rotary embeddings and the cache of latents, which needs\n"
        "`apply_rope_fusion: false`; interleaving is refused wherever `multi_latent_attention` is on.",
    ),
    Worded(
        "GDN102",
        "gdn/frequency",
        INIT,
        "Gated delta net needs to know which layers it takes.",
        {
            "linear_attention_freq if experimental_attention_variant": Said(
                "experimental_attention_variant gated_delta_net needs linear_attention_freq, found null",
                "linear_attention_freq experimental_attention_variant",
                "It says which layers use gated delta net and which full attention.",
                "linear_attention_freq: a number or a list, 4 in Qwen3-Next",
            )
        },
        {"linear_attention_freq": None},
        on="recipe=qwen3_next_80b_a3b_sft_config gpus=64",
        good={"linear_attention_freq": 4},
        text="`linear_attention_freq` is a number (with 4, every fourth layer keeps full attention) or a list with one entry a layer.",
    ),
    Worded(
        "DSA103",
        "dsa/fields",
        INIT,
        "Sparse attention (DeepSeek-V3.2, GLM-5): its kernels by name, no linear bias, numbers of its indexer in range.",
        {
            "_validate_dsa_kernel_backend_dependencies:dsa_kernel_backend=cudnn": _sparse(
                "dsa_kernel_backend",
                "dsa_kernel_backend must be none, tilelang or cudnn, found {dsa_kernel_backend}",
                "Only these kernels of sparse attention exist.",
                {"dsa_kernel_backend": "none"},
            ),
            "add_bias_linear if experimental_attention_variant": _sparse(
                "add_bias_linear",
                "sparse attention (DSA) needs add_bias_linear: false",
                "Its attention layer absorbs a projection and has no bias there.",
                {"add_bias_linear": False},
            ),
            "dsa_indexer_topk_freq if experimental_attention_variant": _sparse(
                "dsa_indexer_topk_freq",
                "dsa_indexer_topk_freq must be 1 or more, found {dsa_indexer_topk_freq}",
                _ANEW,
                {"dsa_indexer_topk_freq": 1},
            ),
            "dsa_indexer_skip_topk_offset if experimental_attention_variant": _sparse(
                "dsa_indexer_skip_topk_offset",
                "dsa_indexer_skip_topk_offset must be 0 or more, found {dsa_indexer_skip_topk_offset}",
                _ANEW,
                {"dsa_indexer_skip_topk_offset": 0},
            ),
        },
        {"experimental_attention_variant": "dsa", "apply_rope_fusion": False, "dsa_indexer_topk_freq": 0},
        on=_DEEPSEEK,
        good={"dsa_indexer_topk_freq": 4},
        releases=(R06, NIGHTLY),
    ),
)
