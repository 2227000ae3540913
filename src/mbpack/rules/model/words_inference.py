"""Layers that are optimised for inference, which a training configuration can name as well."""

from __future__ import annotations

from mbpack.facts.releases import NIGHTLY, R04
from mbpack.rules.base import Rule
from mbpack.rules.model.words_router import INIT, MOE
from mbpack.rules.worded import Mend, Said, Worded

_GUARD = " if num_moe_experts+transformer_impl"
_LEAVE = {"transformer_impl": "transformer_engine"}


def _experts(key: str, what: str, fix: Mend) -> Said:
    return Said(f"expert layers optimised for inference {what}", f"{key} transformer_impl num_moe_experts", fix=fix)


def _layers(key: str, what: str) -> Said:
    why = "The start-up stops at an assertion without a message."
    return Said(f"layers optimised for inference {what}", f"{key} transformer_impl", why, _LEAVE)


def _backend(what: str) -> Said:
    return _experts("inference_grouped_gemm_backend", what, {"inference_grouped_gemm_backend": "torch"})


RULES: tuple[Rule, ...] = (
    Worded(
        "INF101",
        "inference/experts",
        INIT,
        "Expert layers optimised for inference are dropless, route in FP32, and have no gated units.",
        {
            f"expert_tensor_parallel_size{_GUARD}": _experts(
                "expert_tensor_parallel_size",
                "have no expert tensor parallelism, found {expert_tensor_parallel_size}",
                {"expert_tensor_parallel_size": 1},
            ),
            f"moe_expert_capacity_factor{_GUARD}": _experts(
                "moe_expert_capacity_factor",
                "take no moe_expert_capacity_factor: they drop no tokens",
                {"moe_expert_capacity_factor": None},
            ),
            f"moe_router_padding_for_quantization{_GUARD}": _experts(
                "moe_router_padding_for_quantization",
                "do not pad the routing map",
                {"moe_router_padding_for_quantization": False},
            ),
            f"moe_router_dtype=fp32{_GUARD}": _experts(
                "moe_router_dtype", "need moe_router_dtype fp32, found {moe_router_dtype}", {"moe_router_dtype": "fp32"}
            ),
            "cuda_graph_impl+gated_linear_unit=local": _experts(
                "gated_linear_unit", "have no gated linear units in local graphs", _LEAVE
            ),
            f"gated_linear_unit{_GUARD}": _experts("gated_linear_unit", "have no gated linear units", _LEAVE),
            "inference_grouped_gemm_backend=te if cuda_graph_impl": _backend("have no te backend in local graphs"),
            "fp8+inference_grouped_gemm_backend=mxfp8": _backend(
                "do not compute in mxfp8 with inference_grouped_gemm_backend {inference_grouped_gemm_backend}"
            ),
            "inference_grouped_gemm_backend": _backend(
                "do not know inference_grouped_gemm_backend {inference_grouped_gemm_backend}: on 0.4 auto, torch or te, later"
                " flashinfer, torch or vllm"
            ),
        },
        {"transformer_impl": "inference_optimized"},
        on=MOE,
        good={"transformer_impl": "transformer_engine"},
        text="0.4 takes gated units where no local CUDA graphs are asked for. Its backends of the grouped product have other names.",
        releases=(R04, NIGHTLY),
    ),
    Worded(
        "INF102",
        "inference/layers",
        INIT,
        "Layers optimised for inference have plain RMS norms and no biases.",
        {
            "normalization=RMSNorm if transformer_impl": _layers(
                "normalization", "need normalization RMSNorm, found {normalization}"
            ),
            **{
                f"{name} if transformer_impl": _layers(name, f"exclude {name}")
                for name in ("layernorm_zero_centered_gamma", "add_bias_linear", "add_qkv_bias", "use_kitchen")
            },
        },
        {"transformer_impl": "inference_optimized", "add_qkv_bias": True},
        good={"add_qkv_bias": False},
        text="The start-up asserts this without a word.",
    ),
    Worded(
        "INF103",
        "inference/switches",
        INIT,
        "Switches of the layers optimised for inference need those layers.",
        {
            **{
                f"transformer_impl=inference_optimized if {name}": Said(
                    f"{name} needs transformer_impl inference_optimized", f"{name} transformer_impl", fix={name: False}, safe=True
                )
                for name in ("inference_fuse_tp_communication", "inference_disable_triton_nvls_kernels")
            },
            "num_moe_experts if inference_fuse_tp_communication": Said(
                "inference_fuse_tp_communication needs a model without experts",
                "inference_fuse_tp_communication num_moe_experts",
                fix={"inference_fuse_tp_communication": False},
                safe=True,
            ),
        },
        {"inference_fuse_tp_communication": True},
        text="From 0.4 on fused tensor parallel communication also needs a model without experts.",
    ),
)
