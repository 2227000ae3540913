"""Topology, context parallelism, precision, sharding and checkpoints."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, violation


@violation()
def gpu_count(d: Draft) -> None:
    d.gpus = pick(d, d.gpus + 1, 1, 2, 3, max(1, d.gpus // 2), d.gpus * 3)


@violation()
def parallel_size(d: Draft) -> None:
    key = pick(
        d, "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size"
    )
    old = d.model.get(key, 1)
    d.model[key] = pick(d, 2, 3, 4, 5, 16, (1 if old is None else old) * 2, 0) if d.rng.random() < 0.9 else -1
    if d.rng.random() < 0.6 and isinstance(old, int) and d.model[key] > 0 and key[0] != "e":
        d.gpus = d.gpus * d.model[key] // max(1, old) or 1


@violation()
def sequence_parallel(d: Draft) -> None:
    d.model["sequence_parallel"] = pick(d, True, False)
    if d.rng.random() < 0.5:
        d.model["tensor_model_parallel_size"] = 1


@violation()
def query_groups(d: Draft) -> None:
    d.model["num_query_groups"] = pick(d, 1, 2, 3, 5, 6, d.heads)


@violation(lambda d: d.names.minor > 3)
def eval_cp(d: Draft) -> None:
    d.section("dist")["eval_context_parallel_size"] = pick(d, 1, 2, 3, 4, 5, 8)


@violation(lambda d: d.cp > 1)
def cp_loss(d: Draft) -> None:
    if d.rng.random() < 0.5:
        d.model["calculate_per_token_loss"] = pick(d, False, None)
    else:
        d.model.pop("calculate_per_token_loss", None)


@violation(lambda d: d.cp > 1)
def cp_average(d: Draft) -> None:
    d.section("ddp")["average_in_collective"] = True


@violation()
def cp_comm(d: Draft) -> None:
    d.model["cp_comm_type"] = pick(
        d, ["p2p"] * (d.layers - 1), ["a2a", "p2p"], ["p2p"] * d.layers, "a2a+p2p", "p2p", ["a2a+p2p"] * d.layers
    )
    if d.rng.random() < 0.5:
        d.model["hierarchical_context_parallel_sizes"] = pick(d, [2, 2], [2, 1], [4, 2], [1, d.cp], None)


@violation()
def fsdp(d: Draft) -> None:
    d.fsdp()
    d.section("checkpoint").update(
        save=pick(d, "/data/out", None), ckpt_format=pick(d, "fsdp_dtensor", "torch_dist", "torch_dist")
    )


@violation()
def checkpoint_format(d: Draft) -> None:
    d.section("checkpoint").update(
        ckpt_format=pick(d, "fsdp_dtensor", "torch_dist"),
        save=pick(d, "/data/out", None),
        load=pick(d, "/checkpoints/base", None),
    )


@violation()
def precision_object(d: Draft) -> None:
    d.config["mixed_precision"] = {
        "_target_": "megatron.bridge.training.mixed_precision.MixedPrecisionConfig",
        "bf16": True,
        "params_dtype": "torch.bfloat16",
        "pipeline_dtype": "torch.bfloat16",
        "fp8": pick(d, "e4m3", "hybrid"),
        "fp8_recipe": pick(d, "mxfp8", "tensorwise", "delayed"),
        "fp8_param_gather": pick(d, True, True, False),
        "reuse_grad_buf_for_mxfp8_param_ag": pick(d, False, True),
    }
    for key in ("params_dtype", "pipeline_dtype"):
        d.config["mixed_precision"][key] = {"_target_": "torch.bfloat16", "_call_": False}
