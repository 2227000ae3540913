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
