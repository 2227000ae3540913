"""What a file says to the program that wraps Megatron-Bridge: which recipe it calls and how, and how many GPUs it asks for.

Such programs (NVIDIA's Nemotron collection, for example) keep their own sections beside Bridge's: `recipe:` with the import path
or the name of a recipe and keyword arguments for it, `run:` with the job. What a recipe makes of an argument is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from mbpack.config.document import Item
from mbpack.facts.wrappers import is_packed_source

#: Keys of `recipe:` that are no arguments of the recipe.
_OWN = frozenset({"name", "step_func", "dataset", "mode"})
_NODES = ("nodes", "num_nodes")
_PER_NODE = ("gpus_per_node", "devices_per_node", "nproc_per_node", "ntasks_per_node")

_LAYOUT = (
    "model.sequence_parallel",
    "model.calculate_per_token_loss",
    "ddp.average_in_collective",
    "dataset.offline_packing_specs.pad_seq_to_mult",
    "model.pipeline_model_parallel_layout",
    "comm_overlap",
)
#: Argument of recipe functions -> what follows from it in the recipes of all releases.
_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "tensor_model_parallel_size": ("model.tensor_model_parallel_size", *_LAYOUT),
    "tensor_parallelism": ("model.tensor_model_parallel_size", *_LAYOUT),
    "pipeline_model_parallel_size": ("model.pipeline_model_parallel_size", *_LAYOUT),
    "pipeline_parallelism": ("model.pipeline_model_parallel_size", *_LAYOUT),
    "virtual_pipeline_model_parallel_size": ("model.virtual_pipeline_model_parallel_size", *_LAYOUT),
    "context_parallel_size": ("model.context_parallel_size", *_LAYOUT),
    "context_parallelism": ("model.context_parallel_size", *_LAYOUT),
    "expert_model_parallel_size": ("model.expert_model_parallel_size", *_LAYOUT),
    "expert_parallelism": ("model.expert_model_parallel_size", *_LAYOUT),
    "expert_tensor_parallel_size": ("model.expert_tensor_parallel_size", *_LAYOUT),
    "expert_tensor_parallelism": ("model.expert_tensor_parallel_size", *_LAYOUT),
    "sequence_parallel": ("model.sequence_parallel", *_LAYOUT),
    "sequence_parallelism": ("model.sequence_parallel", *_LAYOUT),
    "seq_length": ("model.seq_length", "dataset.seq_length", "dataset.offline_packing_specs.packed_sequence_size"),
    "global_batch_size": ("train.global_batch_size",),
    "micro_batch_size": ("train.micro_batch_size",),
    "train_iters": ("train.train_iters", "scheduler"),
    "train_samples": ("train.train_samples", "scheduler"),
    "eval_interval": ("validation", "train.eval_interval"),
    "eval_iters": ("validation", "train.eval_iters"),
    "lr": ("optimizer.lr",),
    "finetune_lr": ("optimizer.lr",),
    "min_lr": ("optimizer.min_lr",),
    "lr_warmup_iters": ("scheduler",),
    "lr_decay_iters": ("scheduler",),
    "save_interval": ("checkpoint.save_interval",),
    "log_interval": ("logger",),
    "dir": ("checkpoint", "logger"),
    "name": ("checkpoint", "logger"),
    "wandb_project": ("logger",),
    "wandb_entity": ("logger",),
    "wandb_exp_name": ("logger",),
    "pretrained_checkpoint": ("checkpoint.pretrained_checkpoint",),
    "precision_config": ("mixed_precision",),
    "peft": ("peft", "train", "optimizer", "model"),
    "packed_sequence": ("dataset",),
    "hf_path": ("tokenizer",),
}
#: What an argument that is not among them may change.
_ANYTHING = (
    "model",
    "train",
    "dataset",
    "optimizer",
    "scheduler",
    "ddp",
    "comm_overlap",
    "mixed_precision",
    "validation",
    "peft",
)


class Wrapper(Struct, frozen=True):
    """What the sections of a wrapper say; None and empty where they say nothing.

    ``clouded``: canonical keys and sections whose values the recipe takes from its arguments, each with why it is not known.
    """

    recipe: str | None = None
    step: str | None = None
    nodes: int | None = None
    gpus: int | None = None
    clouded: Mapping[str, str] = field(default_factory=dict)


def read_wrapper(roots: Iterable[Item]) -> Wrapper:
    """The wrapper's sections of one configuration, files lowest first: what a higher one says counts."""
    recipe: dict[str, Any] = {}
    run: dict[str, Any] = {}
    source = None
    for root in roots:
        source = dataset_source(root) or source
        if is_wrapped(root):
            _merge(recipe, _plain_mapping(root, "recipe"))
            _merge(run, _plain_mapping(root, "run"))
    if not recipe and not run:
        return Wrapper()
    nodes, per_node = _job(run)
    return Wrapper(
        _name(recipe),
        _text(recipe.get("step_func")),
        nodes,
        nodes * per_node if nodes is not None and per_node is not None else None,
        dict(
            _clouded(recipe) if source is None else (*_clouded(recipe), ("dataset", f"the wrapper makes the dataset of {source}"))
        ),
    )


def is_wrapped(root: Item) -> bool:
    """Whether a file has the sections of a program that wraps the start-up."""
    held = root.value
    return isinstance(held, dict) and any(name in held and isinstance(held[name].value, dict) for name in ("recipe", "run"))


def dataset_source(root: Item) -> str | None:
    """The key from which a wrapper makes the whole dataset by itself: what else stands there is the wrapper's to read."""
    section = root.value.get("dataset") if is_wrapped(root) else None
    keys = section.value if section is not None and isinstance(section.value, dict) else {}
    return next((f"dataset.{name}" for name in keys if is_packed_source(f"dataset.{name}")), None)


def may_register(root: Item) -> bool:
    """Whether a file is a wrapper's for certain, with a recipe or a job's environment, and may use resolvers of that program."""
    if not is_wrapped(root):
        return False
    run = root.value.get("run")
    job = run.value.get("env") if run is not None and isinstance(run.value, dict) else None
    return "recipe" in root.value or (job is not None and isinstance(job.value, dict))


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for name, value in above.items():
        held = below.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            _merge(held, value)
        else:
            below[name] = value


def _name(recipe: Mapping[str, Any]) -> str | None:
    target = _text(recipe.get("_target_"))
    if target is not None:
        return target.rpartition(".")[2] if ".recipes." in target else None
    return _text(recipe.get("name"))


def _clouded(recipe: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    preset = _text(recipe.get("dataset"))
    if preset is not None:
        yield "dataset", f"`recipe.dataset: {preset}` replaces the recipe's dataset"
    if not recipe.keys() & {"_target_", "name"}:
        return
    for argument in recipe:
        if isinstance(argument, str) and not argument.startswith("_") and (argument not in _OWN or "_target_" in recipe):
            for key in _FOLLOWS.get(argument, _ANYTHING):
                yield key, f"the recipe makes it of its argument {argument}"


def _job(run: Mapping[str, Any]) -> tuple[int | None, int | None]:
    held = [place for place in (run.get("env"), run) if isinstance(place, dict)]
    nodes = next((place[name] for place in held for name in _NODES if _count(place.get(name))), None)
    return nodes, next((place[name] for place in held for name in _PER_NODE if _count(place.get(name))), None)


def _count(value: Any) -> bool:
    return type(value) is int and value > 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value and "${" not in value else None


def _plain_mapping(root: Item, name: str) -> Mapping[str, Any]:
    section = root.value.get(name)
    plain = section.plain if section is not None and isinstance(section.value, dict) else {}
    return plain if isinstance(plain, dict) else {}
