"""What ``scripts/training/run_recipe.py`` and its wrappers take on the command line, per release.

Source: ``scripts/training/run_recipe.py`` (0.3 to 0.7), ``scripts/training/setup_experiment.py`` (0.6, 0.7).
"""

from __future__ import annotations

from msgspec import Struct

from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, Release

#: The launcher that synchronises values (0.6 and later), and what submits it.
RUN_RECIPE, SUBMITTERS = "run_recipe.py", ("train.sh", "setup_experiment.py")
#: Programs that take a recipe and start no training.
PREPARERS = ("prepare_gpt_sft_packed_data.py",)


class Flag(Struct, frozen=True):
    """One option: its spellings, whether a value follows, the key it sets (None: none), its first and last release."""

    names: tuple[str, ...]
    takes_value: bool = True
    sets: str | None = None
    since: Release = R03
    until: Release = NIGHTLY


FLAGS: tuple[Flag, ...] = (
    Flag(("--recipe",)),
    Flag(("--model",), since=R06),
    Flag(("--mode",)),
    Flag(("--step_func", "--step-func")),
    Flag(("--peft_scheme",), until=R05),
    Flag(("--packed_sequence",), takes_value=False, until=R05),
    Flag(("--hf_path",), since=R04, until=R05),
    Flag(("--dataset",), since=R04),
    Flag(("--seq_length", "-sl"), sets="dataset.seq_length", since=R06),
    Flag(("--seq_length",), until=R05),
    Flag(("--max_steps", "-ms"), sets="train.train_iters", since=R06),
    Flag(("--global_batch_size", "-gb"), sets="train.global_batch_size", since=R06),
    Flag(("--micro_batch_size", "-mb"), sets="train.micro_batch_size", since=R06),
    Flag(("--tensor_model_parallel_size", "-tp"), sets="model.tensor_model_parallel_size", since=R06),
    Flag(("--pipeline_model_parallel_size", "-pp"), sets="model.pipeline_model_parallel_size", since=R06),
    Flag(("--context_parallel_size", "-cp"), sets="model.context_parallel_size", since=R06),
    Flag(
        ("--virtual_pipeline_model_parallel_size", "-vp"),
        sets="model.virtual_pipeline_model_parallel_size",
        since=R06,
    ),
    Flag(("--expert_model_parallel_size", "-ep"), sets="model.expert_model_parallel_size", since=R06),
    Flag(("--expert_tensor_parallel_size", "-etp"), sets="model.expert_tensor_parallel_size", since=R06),
    Flag(("--lr",), sets="optimizer.lr", since=R06),
    Flag(("--min_lr",), sets="optimizer.min_lr", since=R06),
    Flag(("--warmup_iters",), sets="scheduler.lr_warmup_iters", since=R06),
    Flag(("--pretrained_checkpoint",), sets="checkpoint.pretrained_checkpoint", since=R06),
    Flag(("--save_dir",), sets="checkpoint.save", since=R06),
    Flag(("--load_dir",), sets="checkpoint.load", since=R06),
    Flag(("--save_interval",), sets="checkpoint.save_interval", since=R06),
    Flag(("--dry-run", "--dry_run", "--deterministic", "--dump-env", "--dump_env"), takes_value=False, since=R06),
)

#: Programs of ``scripts/performance``, which build a recipe of their own by name; and the options that mark them.
PERFORMANCE_PROGRAMS = ("run_script.py", "setup_experiment.py", "bootstrap.py")
PERFORMANCE_MODEL, PERFORMANCE_GPUS, PERFORMANCE_PER_NODE = (
    ("--model_recipe_name", "-mr"),
    ("--num_gpus", "-ng"),
    ("--gpus_per_node", "-gn"),
)
#: Their options that set keys, written over the recipe after every KEY=VALUE.
#: Source: 0.2 to 0.7 ``scripts/performance/argument_parser.py``; ``utils/overrides.py``, `set_user_overrides`.
PERFORMANCE_SETS: dict[tuple[str, ...], str] = {
    ("--max_steps", "-ms"): "train.train_iters",
    ("--global_batch_size", "-gb"): "train.global_batch_size",
    ("--micro_batch_size", "-mb"): "train.micro_batch_size",
    ("--seq_length", "-sl"): "model.seq_length",
    ("--tensor_model_parallel_size", "-tp"): "model.tensor_model_parallel_size",
    ("--pipeline_model_parallel_size", "-pp"): "model.pipeline_model_parallel_size",
    ("--context_parallel_size", "-cp"): "model.context_parallel_size",
    ("--virtual_pipeline_model_parallel_size", "-vp"): "model.virtual_pipeline_model_parallel_size",
    ("--expert_model_parallel_size", "-ep"): "model.expert_model_parallel_size",
    ("--expert_tensor_parallel_size", "-et"): "model.expert_tensor_parallel_size",
}
#: Their options that change the recipe in ways that nobody follows here.
PERFORMANCE_UNREAD: tuple[tuple[str, ...], ...] = tuple(
    tuple(names.split())
    for names in (
        "--compute_dtype -c",
        "--fp8_recipe -fr",
        "--task",
        "--data",
        "--config_variant -cv",
        "--optimizer_type",
        "--use_tokendrop",
        "--use_megatron_fsdp",
        "--nccl_ub",
        "--cuda_graph_impl",
        "--cuda_graph_scope",
        "--moe_a2a_overlap",
        "--moe_flex_dispatcher_backend",
        "--recompute_num_layers -rl",
        "--recompute_modules",
        "--activation_offload_layers -ol",
        "--deterministic",
        "--tokenizer_type",
        "--tokenizer_model",
        "--hidden_size",
        "--num_layers",
        "--num_moe_experts",
        "--pipeline_model_parallel_layout",
        "--first_k_dense_replace",
    )
)

#: Options of a user's own script that name a YAML file.
CONFIG_FILE_FLAGS = ("--config-file", "--config_file", "--config")
#: Options without a value of the programs that start or submit a run; every other long option is given one.
SWITCHES = frozenset(
    {"--standalone", "--wait", "--no-gpu-resource-request", "--submission-dry-run", "--detach", "--no-kill"}
    | {name for flag in FLAGS if not flag.takes_value for name in flag.names}
)
#: Options that say how many nodes, GPUs (processes) per node, or processes in all a run has.
NODE_FLAGS = ("--nodes", "-N", "--nnodes")
PER_NODE_FLAGS = ("--nproc_per_node", "--nproc-per-node", "--gpus-per-node", "--gpus_per_node", "--ntasks-per-node")
TOTAL_FLAGS = ("--ntasks", "-n", "--gpus", "-G")

_BY_NAME: dict[str, tuple[Flag, ...]] = {}
for _flag in FLAGS:
    for _name in _flag.names:
        _BY_NAME[_name] = (*_BY_NAME.get(_name, ()), _flag)


def flags_named(name: str) -> tuple[Flag, ...]:
    """Every meaning of an option over the releases; empty when run_recipe.py never had it."""
    return _BY_NAME.get(name, ())


def flag_in(release: Release, name: str) -> Flag | None:
    """What an option means in one release; None where that release does not have it."""
    return next((flag for flag in flags_named(name) if flag.since <= release <= flag.until), None)


def scheme_flags(release: Release) -> tuple[str, ...]:
    """Options of run_recipe.py that choose the adapter of a PEFT recipe, without their value."""
    return ("--peft_scheme",) if flag_in(release, "--peft_scheme") else ("--mode",)


#: Beginnings of PEFT recipes whose functions take no ``peft_scheme``: they make LoRA and nothing else.
#: Source: 0.5, 0.6 `recipes/nemotron_omni`; 0.6 `recipes/qwen_vl/h100/qwen35_vl.py`.
FIXED_ADAPTER = {"nemotron_omni_": R05, "qwen35_vl_": R06}


def takes_scheme(release: Release, recipe: str) -> bool:
    """Whether a PEFT recipe can be called for another adapter than LoRA."""
    return not any(recipe.startswith(start) and release >= since for start, since in FIXED_ADAPTER.items())


def model_recipe(model: str, mode: str) -> str | None:
    """The recipe that ``--model`` and ``--mode`` select together (0.6 and later)."""
    task = {"pretrain": "pretrain", "sft": "sft", "lora": "peft", "dora": "peft"}.get(mode)
    return f"{model}_{task}_config" if task else None
