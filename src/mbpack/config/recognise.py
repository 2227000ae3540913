"""Is a file a Megatron-Bridge configuration, and if not, what is it?

Rules make no sense on a file of another program, and a file of another program is the commonest wrong argument. Other
programs share section names with Megatron-Bridge (``model``, ``optimizer``, ``logger``), so a file counts as another
program's only if it bears that program's marks and none of the sections that only Megatron-Bridge has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from .document import Document
from .items import Item, Span
from .scalars import MISSING, Interpolation

CONTAINER: Final = "ConfigContainer"
_SHARED: Final = frozenset({"checkpoint", "dataset", "logger", "model", "optimizer", "peft", "scheduler", "tokenizer", "train"})
"""Sections whose names other programs use as well."""


class Recognition(Struct, frozen=True):
    """What a file is.

    kind     "complete": a whole configuration (``_target_`` of the container at the top); "override": a part of one;
             "empty": nothing is set; "other": a file of another program, `name` says which; "unknown": no section of
             Megatron-Bridge occurs; "unreadable": it could not be read as a mapping, the document's problems say why.
    message  one line for kinds "other" and "unknown": what it looks like and what to do instead.
    span     the key that decided, where there is one.
    """

    kind: str
    name: str = ""
    message: str = ""
    span: Span | None = None

    @property
    def is_bridge(self) -> bool:
        """Whether the rules apply to it."""
        return self.kind in {"complete", "override", "empty"}


class _Format(Struct, frozen=True):
    """A kind of file. `marks`: of each group at least one key must stand at the top (dots lead inside)."""

    name: str
    marks: tuple[tuple[str, ...], ...]
    advice: str


_NOT_HERE: Final = "mbpack checks Megatron-Bridge configurations only"
_FORMATS: Final = (
    _Format(
        "a NeMo-RL configuration",
        (("policy",), ("grpo", "dpo", "sft", "rm", "ppo", "distillation", "loss_fn", "policy.sequence_packing")),
        f"its packing is `policy.sequence_packing`, another mechanism; {_NOT_HERE}",
    ),
    _Format(
        "a Primus experiment",
        (("modules.pre_trainer", "modules.post_trainer", "modules.sft_trainer"),),
        "give the keys below its `overrides:` to mbpack as KEY=VALUE arguments, or as sections in a file of their own",
    ),
    _Format(
        "an axolotl configuration",
        (("base_model",), ("sample_packing", "sequence_len", "micro_batch_size", "datasets", "adapter", "num_epochs")),
        f"axolotl packs in its own way; {_NOT_HERE}",
    ),
    _Format(
        "a LLaMA-Factory configuration",
        (("finetuning_type", "stage"), ("model_name_or_path", "template", "dataset", "cutoff_len")),
        f"LLaMA-Factory packs in its own way; {_NOT_HERE}",
    ),
    _Format("a verl configuration", (("actor_rollout_ref", "algorithm.adv_estimator"),), _NOT_HERE),
    _Format(
        "a NeMo configuration",
        (("trainer",), ("exp_manager", "data", "log", "resume", "optim", "model.data")),
        f"NeMo's `model`, `trainer` and `data` are not Megatron-Bridge's sections; {_NOT_HERE}",
    ),
    _Format(
        "a DeepSpeed configuration",
        (("zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"),),
        _NOT_HERE,
    ),
    _Format("an Accelerate configuration", (("compute_environment", "distributed_type"), ("num_processes",)), _NOT_HERE),
    _Format(
        "a file of Hugging Face training arguments",
        (
            ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "output_dir"),
            ("learning_rate", "num_train_epochs", "max_steps", "model_name_or_path", "bf16", "fp16"),
        ),
        f"{_NOT_HERE}; there, batch sizes are `train.micro_batch_size` and `train.global_batch_size`",
    ),
    _Format("a model's config.json", (("architectures", "model_type"), ("hidden_size", "vocab_size")), _NOT_HERE),
    _Format("a Kubernetes manifest", (("apiVersion",), ("kind",)), "give the configuration or the launch script inside it"),
    _Format("a GitHub workflow", (("jobs",), ("True", "on", "name")), _NOT_HERE),
    _Format("a Compose file", (("services",), ("version", "volumes", "networks", "services")), _NOT_HERE),
    _Format("a conda environment", (("dependencies",), ("channels", "name")), _NOT_HERE),
    _Format("a pre-commit configuration", (("repos",),), _NOT_HERE),
    _Format("a report of mbpack", (("schema_version",), ("files", "candidates")), "give the configuration itself"),
    _Format(
        "a file of answers for `mbpack init`",
        (("bridge",), ("workload", "modality", "packing", "family"), ("gpus", "tp", "seq_length", "data", "recipe")),
        "replay it with `mbpack init --answers FILE` and check what that writes",
    ),
)
_FLAT: Final = frozenset(
    (
        *("micro_batch_size", "global_batch_size", "train_iters", "seq_length", "sequence_parallel"),
        *("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"),
        *("packed_sequence_specs", "offline_packing_specs", "enable_offline_packing", "enable_in_batch_packing"),
        *("pack_sequences_in_batch", "packed_sequence_size", "pad_seq_to_mult", "calculate_per_token_loss"),
    )
)


_SCRIPT: Final = Recognition(
    "other", "a script", "this is a script: name it with the ending .sh and mbpack reads its launch command"
)
_PACKED_DATA: Final = ("\udc93NUMPY", "PAR1", "PK\x03\x04")
_JSON_ROW: Final = re.compile(r"^\{.*\}[ \t]*$", re.MULTILINE)


def looks_like(document: Document, sections: Collection[str]) -> Recognition:
    """What a document is. `sections` are the top-level names of a Megatron-Bridge configuration, of any release."""
    root = document.root
    if root is None or any(problem.kind == "not-a-mapping" for problem in document.problems):
        return _no_mapping(document)
    keys: Mapping[Any, Item] = root.value
    if not keys:
        return _SCRIPT if document.text.startswith("#!") else Recognition("empty")
    target = keys.get("_target_")
    if target is not None and isinstance(target.value, str) and target.value.rpartition(".")[2] == CONTAINER:
        return Recognition("complete", span=target.key)
    known = [name for name, item in keys.items() if name in sections and _is_section(item)]
    if any(name not in _SHARED for name in known):
        return Recognition("override", span=keys[known[0]].key)
    other = _other(keys)
    if other is not None:
        return other
    if known:
        return Recognition("override", span=keys[known[0]].key)
    written = [name for name in keys if name in sections]
    if written:
        return Recognition("override", span=keys[written[0]].key)
    return _unknown(keys, sections)


def _is_section(item: Item) -> bool:
    """Whether a value can be a section: a mapping, or nothing or an expression in its place."""
    return isinstance(item.value, (dict, Interpolation)) or item.value is None or item.value is MISSING


def _other(keys: Mapping[Any, Item]) -> Recognition | None:
    for name, item in keys.items():
        if isinstance(item.value, dict) and "_component_" in item.value:
            message = f"this looks like a torchtune configuration (`{name}._component_`): {_NOT_HERE}"
            return Recognition("other", "a torchtune configuration", message, item.key)
    for form in _FORMATS:
        found = [next((mark for mark in group if _stands(keys, mark)), None) for group in form.marks]
        if all(mark is not None for mark in found):
            marks = ", ".join(dict.fromkeys(f"`{mark}`" for mark in found))
            message = f"this looks like {form.name} ({marks}): {form.advice}"
            first = _find(keys, str(found[0]))
            return Recognition("other", form.name, message, first.key if first is not None else None)
    return None


def _stands(keys: Mapping[Any, Item], mark: str) -> bool:
    return _find(keys, mark) is not None


def _find(keys: Mapping[Any, Item], mark: str) -> Item | None:
    """The item at a dotted path; ``True`` is the key that YAML makes of an unquoted ``on``."""
    name, _, rest = mark.partition(".")
    item = keys.get(True) if name == "True" else keys.get(name)
    if item is None or not rest:
        return item
    return _find(item.value, rest) if isinstance(item.value, dict) else None


def _unknown(keys: Mapping[Any, Item], sections: Collection[str]) -> Recognition:
    first = next(iter(keys.values()))
    for name, item in keys.items():
        if isinstance(name, str) and name.partition(".")[0] in sections and "." in name:
            message = f"the key `{name}` is one name with dots in it: write it as nested sections, or give it as KEY=VALUE"
            return Recognition("unknown", "dotted keys", message, item.key)
        if name in _FLAT:
            message = f"`{name}` stands at the top: put it below its section (`model:`, `train:`, `dataset:`)"
            return Recognition("unknown", "keys without a section", message, item.key)
    shown = ", ".join(f"`{str(name)[:30]}`" for name in list(keys)[:3])
    more = ", ..." if len(keys) > 3 else ""
    message = f"no section of a Megatron-Bridge configuration occurs, only {shown}{more}: {_NOT_HERE}"
    return Recognition("unknown", "", message, first.key)


def _no_mapping(document: Document) -> Recognition:
    text = document.text
    if text.startswith("#!"):
        return _SCRIPT
    if text.startswith(_PACKED_DATA):
        message = "this is packed data, not a configuration: look inside with `mbpack inspect`"
        return Recognition("other", "packed data", message)
    if len(_JSON_ROW.findall(text[:100_000])) > 1:
        message = "this is JSON Lines data, not a configuration: give the file that names it (`dataset.dataset_root`)"
        return Recognition("other", "data in JSON Lines", message)
    for problem in document.problems:
        if problem.kind == "not-a-mapping":
            return Recognition("other", "no mapping", problem.message, problem.span)
    return Recognition("unreadable")
