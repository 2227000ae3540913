"""CUDA graphs, recomputation, experts and attention variants."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, text, violation


@violation()
def graphs(d: Draft) -> None:
    scope = "cuda_graph_modules" if d.names.minor > 4 and d.rng.random() < 0.5 else "cuda_graph_scope"
    d.model["cuda_graph_impl"] = pick(d, "transformer_engine", "transformer_engine", "local", "full_iteration", "none")
    d.model[scope] = pick(
        d,
        ["attn"],
        ["mlp"],
        ["moe"],
        ["moe_router"],
        ["moe_preprocess"],
        ["moe", "moe_router"],
        ["moe_router", "moe_preprocess"],
        ["full_iteration"],
        [],
        "attn,mlp",
        "full",
        "full_iteration",
        ["mamba"],
        ["atn"],
        None,
    )
    if d.rng.random() < 0.7:
        d.model["use_te_rng_tracker"] = True
        d.section("rng")["te_rng_tracker"] = True
    if d.rng.random() < 0.5:
        d.section("rerun_state_machine")["check_for_nan_in_loss"] = False


@violation(lambda d: d.model.get("cuda_graph_impl") not in (None, "none"))
def graph_partner(d: Draft) -> None:
    change = pick(d, "offload", "recompute", "nan", "both", "tracker", "width")
    if change == "offload":
        d.model.update(cpu_offloading=True, cpu_offloading_num_layers=2)
    elif change == "recompute":
        d.model.update(recompute_granularity="full", recompute_method="uniform", recompute_num_layers=1)
    elif change == "nan":
        d.section("rerun_state_machine")["check_for_nan_in_loss"] = pick(d, True, False)
    elif change == "both":
        d.model.update(cuda_graph_scope=pick(d, ["attn"], [], "full", None))
        if d.names.minor > 4:
            d.model.update(cuda_graph_modules=pick(d, ["attn"], [], "full", None))
    elif change == "tracker":
        d.model["use_te_rng_tracker"] = False
        d.section("rng")["te_rng_tracker"] = pick(d, False, False, True)
    else:
        d.specs()["pad_cu_seqlens"] = False
        d.dataset["dataset_kwargs"] = (
            pick(d, None, {"pad_to_max_length": True}, {"pad_to_max_length": "true"}) if text(d) else None
        )


@violation()
def recompute(d: Draft) -> None:
    d.model["recompute_granularity"] = pick(d, "full", "selective", "block", "full")
    if d.rng.random() < 0.7:
        d.model["recompute_method"] = pick(d, "uniform", "block", "chunks", None)
    if d.rng.random() < 0.6:
        d.model["recompute_num_layers"] = pick(d, 1, 2, None)
    if d.rng.random() < 0.1:
        d.model["distribute_saved_activations"] = True


@violation()
def experts(d: Draft) -> None:
    d.model.update(
        pick(
            d,
            {"expert_model_parallel_size": pick(d, 2, 3, 4)},
            {"overlap_moe_expert_parallel_comm": True},
            {"moe_token_dispatcher_type": pick(d, "allgather", "alltoall", "flex"), "variable_seq_lengths": pick(d, True, False)},
            {"moe_flex_dispatcher_backend": pick(d, "ncclep", "deepep", "hybridep")},
            {"mtp_num_layers": pick(d, 0, 1, 2)},
            {"moe_expert_capacity_factor": pick(d, 1.0, 1.5), "moe_pad_expert_input_to_capacity": pick(d, True, False)},
        )
    )


@violation(lambda d: bool(d.experts))
def expert_overlap(d: Draft) -> None:
    if d.rng.random() < 0.5:
        d.model["overlap_moe_expert_parallel_comm"] = True
    else:
        d.config["comm_overlap"] = {
            "_target_": "megatron.bridge.training.comm_overlap.CommOverlapConfig",
            "tp_comm_overlap": False,
            "overlap_moe_expert_parallel_comm": True,
            **pick(d, {}, {"delay_wgrad_compute": True}),
        }
    d.model.update(
        pick(
            d,
            {},
            {"expert_model_parallel_size": pick(d, 1, 2)},
            {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
        )
    )


@violation()
def deterministic(d: Draft) -> None:
    d.model["deterministic_mode"] = True
    d.model["cross_entropy_loss_fusion"] = pick(d, True, False, False)
    if d.names.later and d.rng.random() < 0.7:
        d.config["env_vars"] = {"NCCL_ALGO": pick(d, "Tree", "Ring", "NVLS", "^NVLS")}
    if d.rng.random() < 0.4:
        d.model["attention_backend"] = {
            "_target_": "megatron.core.transformer.enums.AttnBackend",
            "_call_": True,
            "_args_": [pick(d, 1, 2, 5)],
        }


@violation()
def gated_delta_net(d: Draft) -> None:
    heads = pick(d, (4, 8), (8, 4), (3, 6), (16, 32))
    d.model.update(
        experimental_attention_variant="gated_delta_net",
        linear_attention_freq=pick(d, 4, 1),
        linear_num_key_heads=heads[0],
        linear_num_value_heads=heads[1],
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_conv_kernel_dim=4,
    )
