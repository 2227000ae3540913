"""Every rule module, listed explicitly: a new one is added here, nowhere else."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module

from mbpack.config.settings import Settings
from mbpack.config.watch import Watch
from mbpack.facts.releases import Release
from mbpack.rules import (
    alignment,
    attention_kernels,
    attention_variants,
    batch,
    command_line,
    context_parallel,
    cp_comm,
    data_sources,
    dataset_kwargs,
    documents,
    dynamic_cp,
    energon,
    energon_encoders,
    energon_native,
    energon_runtime,
    expert_topology,
    experts,
    expressions,
    families,
    global_batch,
    global_batch_notes,
    global_batch_size,
    graph_capture,
    graph_scopes,
    graph_spelling,
    graphs,
    hf_sources,
    hybrid_layers,
    in_batch,
    internal,
    keys,
    launch_flags,
    lengths,
    loss,
    models,
    multiples,
    nested_objects,
    null_numbers,
    online,
    optimizer_precision,
    pack_building,
    pack_jobs,
    pack_size,
    packed_data,
    packed_metadata,
    packed_rows,
    packed_shards,
    packing_modes,
    pipeline,
    pipeline_comm,
    precision,
    preprocessing,
    recompute,
    schedule,
    stage_counts,
    stage_layout,
    stages,
    steps,
    structure,
    targets,
    tokenisation,
    topology,
    validation_sets,
    values,
    varying_width,
    vlm_rows,
    width,
)
from mbpack.rules.base import Rule

#: Modules that are asked about every configuration.
ALWAYS = (
    alignment,
    attention_kernels,
    attention_variants,
    batch,
    in_batch,
    command_line,
    context_parallel,
    cp_comm,
    data_sources,
    hf_sources,
    preprocessing,
    dataset_kwargs,
    documents,
    dynamic_cp,
    energon,
    energon_encoders,
    energon_native,
    energon_runtime,
    experts,
    expressions,
    families,
    global_batch,
    global_batch_notes,
    global_batch_size,
    graph_capture,
    graph_scopes,
    graphs,
    graph_spelling,
    internal,
    keys,
    launch_flags,
    lengths,
    loss,
    models,
    hybrid_layers,
    multiples,
    online,
    pack_building,
    pack_jobs,
    pack_size,
    packed_data,
    packed_metadata,
    packed_rows,
    packed_shards,
    packing_modes,
    pipeline,
    pipeline_comm,
    precision,
    optimizer_precision,
    recompute,
    schedule,
    stage_counts,
    stage_layout,
    stages,
    steps,
    vlm_rows,
    structure,
    nested_objects,
    targets,
    tokenisation,
    topology,
    expert_topology,
    validation_sets,
    values,
    null_numbers,
    varying_width,
    width,
)

#: Modules about settings that few configurations write, each with the canonical keys that bring its findings about. A recipe and
#: class defaults alone start, so the module is asked, and imported, only where one of these is written.
WATCHED: dict[str, tuple[str, ...]] = {
    "activation_offload": ("model.fine_grained_activation_offloading",),
    "checkpoints": (
        "checkpoint.ckpt_step",
        "checkpoint.load_main_params_from_ckpt",
        "checkpoint.load_optim",
        "checkpoint.dist_ckpt_optim_fully_reshardable",
        "checkpoint.distrib_optim_fully_reshardable_mem_efficient",
        "checkpoint.async_save",
        "checkpoint.use_persistent_ckpt_worker",
        "checkpoint.also_save_hf_checkpoint",
        "dist.use_gloo_process_groups",
        "dist.use_decentralized_pg",
    ),
    "ddp_buckets": (
        "ddp.num_buckets",
        "ddp.bucket_size",
        "ddp.param_name_patterns_for_fp32_local_accumulation",
        "ddp.grad_reduce_in_fp32",
    ),
    "deterministic": ("model.deterministic_mode",),
    "expert_overlap": (
        "comm_overlap",
        "model.overlap_moe_expert_parallel_comm",
        "model.delay_wgrad_compute",
        "model.ep_overlap_early_attn_memory_release",
        "model.overlap_dispatch_backward_with_experts_wgrad",
    ),
    "expert_shapes": (
        "model.num_moe_experts",
        "model.moe_ffn_hidden_size",
        "model.moe_layer_freq",
        "model.moe_shared_expert_intermediate_size",
        "model.moe_shared_expert_overlap",
        "model.moe_token_dispatcher_type",
        "model.moe_flex_dispatcher_backend",
        "model.moe_enable_deepep",
        "model.moe_pad_expert_input_to_capacity",
        "model.moe_flex_dispatcher_num_sms",
        "model.moe_deepep_num_sms",
        "model.moe_hybridep_num_sms",
        "model.moe_expert_rank_capacity_factor",
        "model.use_transformer_engine_op_fuser",
    ),
    "recompute_modules": (
        "mixed_precision",
        "model.recompute_granularity",
        "model.recompute_modules",
        "model.moe_layer_recompute",
        "model.moe_grouped_gemm",
        "model.multi_latent_attention",
        "model.experimental_attention_variant",
        "model.moe_shared_expert_intermediate_size",
        "model.moe_shared_expert_overlap",
        "model.fp8",
        "model.fp8_recipe",
    ),
    "router": (
        "mixed_precision",
        "model.moe_router_load_balancing_type",
        "model.moe_aux_loss_coeff",
        "model.moe_expert_capacity_factor",
        "model.moe_pad_expert_input_to_capacity",
        "model.moe_router_padding_for_quantization",
        "model.moe_router_padding_for_fp8",
        "model.moe_token_dispatcher_type",
        "model.moe_router_topk",
        "model.moe_router_score_function",
        "model.moe_router_pre_softmax",
        "model.moe_router_group_topk",
        "model.moe_router_num_groups",
        "model.moe_router_topk_limited_devices",
        "model.num_moe_experts",
        "model.moe_router_enable_expert_bias",
        "model.fp8",
        "model.fp4",
    ),
    "run_logs": (
        "logger.mlflow_experiment",
        "logger.mlflow_run_name",
        "logger.comet_project",
        "logger.comet_experiment_name",
        "profiling.use_nsys_profiler",
        "profiling.use_pytorch_profiler",
        "profiling.profile_step_start",
        "profiling.profile_step_end",
    ),
    "fsdp_limits": (
        "dist.use_megatron_fsdp",
        "ddp.use_megatron_fsdp",
        "dist.use_torch_fsdp2",
        "dist.use_tp_pp_dp_mapping",
        "ddp.fsdp_manual_registration",
        "train.check_weight_hash_across_dp_replicas_interval",
        "env_vars.CUDA_DEVICE_MAX_CONNECTIONS",
    ),
    "schedule_modes": (
        "train.rampup_batch_size",
        "train.train_samples",
        "train.num_epochs",
        "scheduler.override_opt_param_scheduler",
        "scheduler.use_checkpoint_opt_param_scheduler",
    ),
}


@cache
def module_rules(name: str) -> tuple[Rule, ...]:
    """The rules of a watched module."""
    rules: tuple[Rule, ...] = import_module(f"mbpack.rules.{name}").RULES
    return rules


def rules_for(settings: Settings) -> tuple[Rule, ...]:
    """The rules to ask about a configuration, those that read what stopped the others last."""
    release = settings.version.release
    return _rules(release, _watch(release).seen(settings))


@cache
def _watch(release: Release) -> Watch:
    return Watch(release, WATCHED)


@lru_cache(maxsize=512)
def _rules(release: Release, names: frozenset[str]) -> tuple[Rule, ...]:
    rules = [rule for module in ALWAYS for rule in module.RULES]
    rules += [rule for name in WATCHED if name in names for rule in module_rules(name)]
    return tuple(sorted((rule for rule in rules if rule.applies(release)), key=lambda rule: rule.late))
