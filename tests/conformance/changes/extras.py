"""What lies beside the usual settings: limits of Megatron-FSDP, pretraining data, adapters, stragglers, weight shards."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, violation


@violation()
def fsdp_limits(d: Draft) -> None:
    d.fsdp()
    if d.rng.random() < 0.4:
        d.section(pick(d, "ddp", "dist"))["use_megatron_fsdp"] = pick(d, True, False)
    choices = {
        "dist.use_torch_fsdp2": (True, False),
        "dist.use_tp_pp_dp_mapping": (True, False),
        "ddp.fsdp_manual_registration": (True, False),
        "ddp.nccl_ub": (True, False),
        "ddp.data_parallel_sharding_strategy": ("optim_grads_params", "optim", "no_shard"),
        "train.check_weight_hash_across_dp_replicas_interval": (10, 0, None),
    }
    for key in d.rng.sample(sorted(choices), pick(d, 1, 2, 3)):
        section, _, name = key.partition(".")
        d.section(section)[name] = pick(d, *choices[key])
    if d.names.later and d.rng.random() < 0.4:
        d.config["env_vars"] = {"CUDA_DEVICE_MAX_CONNECTIONS": pick(d, 1, "1", 8, True)}
    if d.rng.random() < 0.3:
        d.section("checkpoint").update(save=pick(d, "/data/out", None), ckpt_format=pick(d, "torch_dist", "fsdp_dtensor"))


@violation(lambda d: d.data_kind == "pretrain")
def pretraining_data(d: Draft) -> None:
    if d.rng.random() < 0.2:
        d.dataset["_target_"] = "megatron.bridge.training.config.MockGPTDatasetConfig"
        d.dataset.setdefault("seq_length", d.dataset.pop("sequence_length", d.seq))
    pairs = ([["/data/a", "/data/b"], [0.5, 0.5]], [["/data/a"], None], [["/data/a", "/data/b"], [1]], ["/data/a"], [])
    choices = {
        "blend": (*pairs, None),
        "blend_per_split": ([pick(d, *pairs, None) for _ in range(pick(d, 2, 3, 3))], [], None),
        "split": ("99,1,0", "1", "1,1,1,1", None, 100),
        "fast_cache_load": (True, False),
        "defer_npy_index_mmap": (True, False),
        "path_to_cache": ("/data/cache", None),
        **dict.fromkeys(("reset_position_ids", "reset_attention_mask", "eod_mask_loss"), (True, False, None)),
    }
    if d.names.minor > 3:
        choices["data_path"] = ("/data/a", "0.3 /data/a 0.7 /data/b", [1, "/data/a"], [], ["/data/a", "/data/b", 1, "/c"], None)
    for key in d.rng.sample(sorted(choices), pick(d, 1, 2, 3)):
        d.dataset[key] = pick(d, *choices[key])


@violation()
def adapters(d: Draft) -> None:
    d.section("checkpoint")["pretrained_checkpoint"] = "/checkpoints/base"
    if d.rng.random() < 0.5:
        d.config["peft"] = {"_target_": "megatron.bridge.peft.dora.DoRA", "dropout_position": pick(d, "pre", "post")}
    else:
        names = ("linear_qkv", "linear_q", "linear_fc1", "linear_fc1_up", "linear_proj", "linear_fc2")
        targets = d.rng.sample(names, pick(d, 1, 2))
        d.config["peft"] = {"_target_": "megatron.bridge.peft.canonical_lora.CanonicalLoRA", "target_modules": targets}


@violation(lambda d: d.names.minor > 3)
def checkpoints_at_load(d: Draft) -> None:
    own = d.section("checkpoint")
    own[pick(d, "async_strategy", "verify_integrity")] = True
    if "async_strategy" in own:
        own["async_strategy"] = pick(d, "nvrx", "mcore", "thread")
    if d.rng.random() < 0.5:
        own["ckpt_format"] = pick(d, "torch", "torch_dist")


@violation()
def stragglers(d: Draft) -> None:
    own = d.config["nvrx_straggler"] = {
        "_target_": "megatron.bridge.training.config.NVRxStragglerDetectionConfig",
        "enabled": pick(d, True, True, False),
    }
    choices = {
        "calc_relative_gpu_perf": (True, False, False),
        "calc_individual_gpu_perf": (True, False, False),
        "report_time_interval": (300, 0.5, 0, -1),
        "gpu_relative_perf_threshold": (0, 0.7, 1, 70, -0.1),
        "gpu_individual_perf_threshold": (0, 0.7, 1, 70, -0.1),
    }
    for key in d.rng.sample(sorted(choices), pick(d, 1, 2, 3)):
        own[key] = pick(d, *choices[key])


@violation(lambda d: d.names.later)
def weight_shards(d: Draft) -> None:
    d.model["tensor_parallel_num_weight_shards"] = pick(d, d.tp, d.tp * 2, d.tp + 1, max(0, d.tp - 1), None)
    if d.rng.random() < 0.5:
        d.model["expert_tensor_parallel_num_weight_shards"] = pick(d, 0, 1, 2, 3, None)


@violation()
def modelopt(d: Draft) -> None:
    d.outer["restore_modelopt_state"] = pick(d, True, True, False)
    d.model["gradient_accumulation_fusion"] = pick(d, True, False)
    if d.rng.random() < 0.4:
        d.section("checkpoint")["non_persistent_ckpt_type"] = pick(d, "global", None)
