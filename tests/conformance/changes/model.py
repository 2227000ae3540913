"""What the model's own checks refuse: layers over stages, patterns of hybrids, routers, recomputed modules, overlap."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, violation


def _stages(d: Draft) -> int:
    """Another pipeline size, the GPUs following."""
    old = d.model.get("pipeline_model_parallel_size") or 1
    size = int(pick(d, 1, 2, 4))
    d.model["pipeline_model_parallel_size"] = size
    d.gpus = max(1, d.gpus // old) * size
    return size


@violation()
def stage_counts(d: Draft) -> None:
    _stages(d)
    for key in ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"):
        if d.rng.random() < 0.6:
            d.model[key] = pick(d, 1, 2, 3, d.layers // 2, d.layers, 0, None)
    if d.rng.random() < 0.3:
        d.model["virtual_pipeline_model_parallel_size"] = pick(d, 1, 2, 3, None)


@violation()
def stage_accounts(d: Draft) -> None:
    _stages(d)
    for key in ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"):
        d.model[key] = pick(d, True, True, False)
    if d.rng.random() < 0.3:
        d.model["virtual_pipeline_model_parallel_size"] = pick(d, 2, None)
    if d.rng.random() < 0.2:
        d.model["num_layers_in_first_pipeline_stage"] = pick(d, 1, 2, None)


@violation()
def stage_layout(d: Draft) -> None:
    stages = _stages(d)
    each = d.layers // stages
    rows = [f"t*{each}"] * stages
    rows[0] = pick(d, "E", "E", "E", "") + rows[0]
    rows[-1] = (f"t*{d.layers - each * (stages - 1)}" if stages > 1 else rows[-1]) + pick(d, "L", "L", "L", "m", "")
    if d.rng.random() < 0.3:
        rows = pick(d, rows[:-1], [*rows, "t"], ["E", *rows[1:]], [*rows[:-1], "L"], [row.replace("t", "x") for row in rows])
    d.model["pipeline_model_parallel_layout"] = "|".join(rows)
    if d.rng.random() < 0.2:
        d.model[pick(d, "num_layers_in_first_pipeline_stage", "virtual_pipeline_model_parallel_size")] = pick(d, 1, 2)


@violation(lambda d: d.kind == "hybrid")
def hybrid_layers(d: Draft) -> None:
    key = d.names.hybrid_pattern
    pattern = str(d.model.get(key) or "M-M*")
    if d.rng.random() < 0.5:
        d.model["num_layers"] = pick(d, d.layers + 1, d.layers - 1, None, d.layers, str(d.layers))
    else:
        d.model[key] = pick(
            d, pattern[:-1], f"{pattern}X", f"{pattern}/M*", pattern.replace("*", "|*", 1), f"{pattern[:-1]}D", pattern, ""
        )


@violation(lambda d: bool(d.experts))
def router(d: Draft) -> None:
    for key, values in d.rng.sample(
        [
            ("moe_router_topk", (1, 2)),
            ("moe_router_pre_softmax", (True, False)),
            ("moe_router_score_function", ("softmax", "sigmoid")),
            ("moe_router_num_groups", (None, 2, 3, d.experts)),
            ("moe_router_group_topk", (None, 1, 2, 5)),
            ("moe_router_enable_expert_bias", (True, False)),
            ("moe_router_load_balancing_type", ("aux_loss", "sinkhorn", "none", "seq_aux_loss", ["aux_loss", "seq_aux_loss"])),
            ("moe_aux_loss_coeff", (0.01, 0.0, [0.01, 0.01], [0.01])),
            ("moe_expert_capacity_factor", (None, 1.0, -1.0)),
            ("moe_pad_expert_input_to_capacity", (True, False)),
            ("moe_router_padding_for_quantization", (True, False)),
            ("moe_token_dispatcher_type", ("alltoall", "allgather", "flex")),
            ("moe_enable_deepep", (True, False)),
            ("moe_shared_expert_intermediate_size", (None, 0, 64)),
            ("moe_shared_expert_overlap", (True, False)),
        ],
        2,
    ):
        d.model[key] = pick(d, *values)


@violation()
def expert_sizes(d: Draft) -> None:
    key = pick(d, "num_moe_experts", "moe_ffn_hidden_size", "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap")
    d.model[key] = pick(d, True, False) if key.endswith("overlap") else pick(d, 0, None, 2, 64)


@violation()
def recomputed_modules(d: Draft) -> None:
    names = "core_attn moe_act layernorm mla_up_proj mlp moe shared_experts gdn_norm_out".split()
    d.model["recompute_granularity"] = pick(d, "selective", "selective", "selective", "full", None)
    d.model["recompute_modules"] = d.rng.sample(names, pick(d, 1, 1, 2))


@violation()
def overlap_switches(d: Draft) -> None:
    keys = (
        *("delay_wgrad_compute", "overlap_moe_expert_parallel_comm", "ep_overlap_early_attn_memory_release"),
        *("overlap_p2p_comm_warmup_flush", "overlap_p2p_comm", "batch_p2p_comm"),
    )
    for key in d.rng.sample(keys, pick(d, 1, 1, 2)):
        d.model[key] = pick(d, True, True, False)


@violation()
def both_precisions(d: Draft) -> None:
    d.model[pick(d, "fp16", "bf16")] = pick(d, True, False)
    if d.rng.random() < 0.4:
        d.section("optimizer")[pick(d, "fp16", "bf16")] = pick(d, True, False)
