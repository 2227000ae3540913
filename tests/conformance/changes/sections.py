"""What the other sections refuse by themselves: optimizer states, checkpoints, logging, profiling, buckets."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, violation

_DTYPES = ("torch.float32", "torch.bfloat16", "torch.float16")


@violation()
def optimizer_states(d: Draft) -> None:
    own = d.section("optimizer")
    if d.rng.random() < 0.6:
        own["use_precision_aware_optimizer"] = pick(d, True, True, False)
    if d.rng.random() < 0.3:
        own["optimizer"] = pick(d, "adam", "sgd")
    if d.rng.random() < 0.3:
        own["use_distributed_optimizer"] = pick(d, True, False)
    for key in d.rng.sample(("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"), pick(d, 0, 1, 2)):
        own[key] = pick(d, *_DTYPES)


@violation()
def checkpoint_settings(d: Draft) -> None:
    own = d.section("checkpoint")
    choices = {
        "ckpt_step": (100, None),
        "load": ("/checkpoints/base", None),
        "save": ("/data/out", None),
        "load_main_params_from_ckpt": (True, False),
        "load_optim": (True, False),
        "async_save": (True, False),
        "use_persistent_ckpt_worker": (True, False),
        "dist_ckpt_optim_fully_reshardable": (True, False),
        "distrib_optim_fully_reshardable_mem_efficient": (True, False),
    }
    for key in d.rng.sample(sorted(choices), pick(d, 2, 3)):
        own[key] = pick(d, *choices[key])
    if d.rng.random() < 0.2:
        d.section("dist")["use_gloo_process_groups"] = pick(d, True, False)


@violation()
def run_logs(d: Draft) -> None:
    own = d.section("logger")
    kind = pick(d, "mlflow", "comet")
    own[f"{kind}_{pick(d, 'experiment', 'project')}"] = "packing"
    if kind == "mlflow" and d.rng.random() < 0.5:  # with a name, Comet asks for its package
        own["mlflow_run_name"] = pick(d, "one", "", None)


@violation()
def profiling_window(d: Draft) -> None:
    d.config["profiling"] = {
        "_target_": "megatron.bridge.training.config.ProfilingConfig",
        "use_pytorch_profiler": pick(d, True, False),
        "use_nsys_profiler": pick(d, True, False),
        "profile_step_start": pick(d, 1, 10, -1),
        "profile_step_end": pick(d, 2, 10, 5, -1),
    }


@violation()
def schedule_pairs(d: Draft) -> None:
    own = d.section("scheduler")
    key = pick(d, "override_opt_param_scheduler", "use_checkpoint_opt_param_scheduler", "weight_decay_incr_style")
    own[key] = pick(d, "constant", "linear", "cosine") if key.startswith("weight") else pick(d, True, False)
    if d.rng.random() < 0.5:
        own.update(override_opt_param_scheduler=True, use_checkpoint_opt_param_scheduler=pick(d, True, False))
    if d.rng.random() < 0.3:
        d.section("train")["rampup_batch_size"] = pick(d, [2, 2, 100], None)


@violation()
def buckets(d: Draft) -> None:
    d.section("ddp")[pick(d, "num_buckets", "bucket_size")] = pick(d, 0, 1, 4, None)


@violation()
def optional_section(d: Draft) -> None:
    name = pick(d, "mixed_precision", "comm_overlap", "profiling", "nvrx_straggler", "tensor_inspect", "peft")
    d.config[name] = pick(d, 5, [1], True, {}, None)
