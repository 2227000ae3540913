"""Offloaded and stashed activations, grouped weights, former graph switches, layers for inference."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, violation

_MODULES = "core_attn attn_proj expert_fc1 moe_act attn_norm mlp_norm qkv_linear fused_group_mlp mlp".split()
_GROUPED = "moe_single_grouped_"


@violation()
def activation_offload(d: Draft) -> None:
    own = d.model
    own["fine_grained_activation_offloading"] = pick(d, True, True, True, False)
    names = ["core_attn", *d.rng.sample(_MODULES, pick(d, 0, 0, 1, 2))]
    own["offload_modules"] = pick(d, names, names, names, names[1:], [], None)
    for key, values in d.rng.sample(
        [
            ("transformer_impl", ("transformer_engine", "local")),
            ("cpu_offloading", (True, False)),
            ("use_transformer_engine_op_fuser", (True, False)),
            ("recompute_granularity", ("selective", None)),
            ("recompute_modules", (["moe"], ["core_attn"])),
            ("moe_layer_recompute", (True, False)),
        ],
        pick(d, 0, 1, 2),
    ):
        own[key] = pick(d, *values)
    if d.names.later:
        d.config["env_vars"] = {"NVTE_CPU_OFFLOAD_V1": pick(d, 1, 1, 1, "1", 0)}
        if d.rng.random() < 0.3:
            own[pick(d, "min_offloaded_tensor_size", "delta_offload_bytes_across_pp_ranks")] = pick(d, 0, -1, 1024)
        if d.rng.random() < 0.3:
            own["activation_offload_fraction"] = pick(d, 0, 0.5, 1, 1.5, -0.5)
    if d.rng.random() < 0.4:
        _graphs_beside(d)


def _graphs_beside(d: Draft) -> None:
    d.model["cuda_graph_impl"] = pick(d, "transformer_engine", "full_iteration", "local")
    d.model["cuda_graph_scope"] = pick(d, ["attn"], ["moe"], None, [])
    d.model["use_te_rng_tracker"] = d.section("rng")["te_rng_tracker"] = True
    d.section("rerun_state_machine")["check_for_nan_in_loss"] = False
    d.model["cuda_graph_warmup_steps"] = pick(d, 3, 3, 0)
    if d.names.minor > 4:
        d.model["fine_grained_offloading_max_inflight_offloads"] = pick(d, 0, 2, None, -1)


@violation()
def former_graph_switches(d: Draft) -> None:
    for key in ("enable_cuda_graph", "external_cuda_graph"):
        if d.rng.random() < 0.6:
            d.model[key] = pick(d, True, True, False)
    d.model["use_te_rng_tracker"] = d.section("rng")["te_rng_tracker"] = True
    if d.rng.random() < 0.4:
        d.model["cuda_graph_impl"] = pick(d, "transformer_engine", "local", "none")
        d.model["cuda_graph_scope"] = pick(d, ["attn"], ["moe_router"], ["full_iteration"], None)
    if d.names.minor > 4 and d.rng.random() < 0.6:
        d.model["inference_cuda_graph_scope"] = pick(d, "none", "layer", "block", "rows", None)
    if d.rng.random() < 0.2:
        d.model.update(cpu_offloading=True, cpu_offloading_num_layers=2)


@violation(lambda d: d.names.minor > 4)
def paged_stash(d: Draft) -> None:
    d.model["moe_paged_stash"] = pick(d, True, True, False)
    d.model["offload_modules"] = pick(d, [], [], ["core_attn"], ["moe_act"], ["fused_group_mlp"], None)
    if d.rng.random() < 0.7:
        d.model.update(
            moe_expert_rank_capacity_factor=1.0,
            moe_token_dispatcher_type="flex",
            moe_flex_dispatcher_backend="hybridep",
            use_transformer_engine_op_fuser=True,
        )
    if d.rng.random() < 0.2:
        d.model.update(cpu_offloading=True, cpu_offloading_num_layers=2)


@violation(lambda d: d.names.minor > 4)
def grouped_weights(d: Draft) -> None:
    d.model[_GROUPED + pick(d, "weight", "weight", "bias")] = pick(d, True, True, False)
    for key in ("moe_grouped_gemm", "use_transformer_engine_op_fuser", "add_bias_linear"):
        if d.rng.random() < 0.5:
            d.model[key] = pick(d, True, True, False)
    if d.rng.random() < 0.5:
        d.config["mixed_precision"] = pick(d, "bf16_with_mxfp8_mixed", "bf16_with_fp8_current_scaling_mixed", "bf16_mixed")


@violation()
def inference_layers(d: Draft) -> None:
    d.model["transformer_impl"] = pick(d, "inference_optimized", "inference_optimized", "inference_optimized", "local")
    d.model["normalization"] = pick(d, "RMSNorm", "RMSNorm", "LayerNorm")
    d.model["add_bias_linear"] = pick(d, False, False, True)
    for key, values in d.rng.sample(
        [
            ("add_qkv_bias", (True, False)),
            ("layernorm_zero_centered_gamma", (True, False)),
            ("inference_fuse_tp_communication", (True, False)),
            ("moe_expert_capacity_factor", (1.0, None)),
            ("gated_linear_unit", (True, False)),
            ("moe_router_padding_for_quantization", (True, False)),
            *([("inference_grouped_gemm_backend", ("torch", "te", "vllm", "auto"))] if d.names.minor > 3 else []),
            *([("inference_disable_triton_nvls_kernels", (True, False))] if d.names.minor > 3 else []),
        ],
        pick(d, 0, 1, 2),
    ):
        d.model[key] = pick(d, *values)
    if d.rng.random() < 0.8:
        d.model["moe_router_dtype"] = pick(d, "fp32", "fp32", "fp64")
