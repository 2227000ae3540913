"""Values as they will be after recipe, files, overrides, launcher and upstream's own derivations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import ABSENT, Object, Origin, Setting, Unknown, WrongKind
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import path_in
from mbpack.facts.releases import R04, R05, R06
from mbpack.facts.schema import Opaque

#: Keys shown even when nobody wrote them, in order.
SHOWN = (
    "model.seq_length model.tensor_model_parallel_size model.pipeline_model_parallel_size "
    "model.virtual_pipeline_model_parallel_size model.context_parallel_size model.expert_model_parallel_size "
    "model.expert_tensor_parallel_size model.sequence_parallel model.calculate_per_token_loss model.cp_comm_type "
    "model.cuda_graph_impl model.cuda_graph_scope model.cuda_graph_modules model.use_te_rng_tracker model.variable_seq_lengths "
    "model.recompute_granularity model.mtp_num_layers model.num_moe_experts model.moe_token_dispatcher_type "
    "train.micro_batch_size train.global_batch_size train.train_iters train.train_samples train.num_epochs "
    "validation.eval_micro_batch_size validation.eval_global_batch_size validation.eval_iters "
    "ddp.average_in_collective dist.eval_context_parallel_size "
    "dataset.seq_length dataset.dataset_root dataset.hf_dataset dataset.enable_offline_packing "
    "dataset.offline_packing_specs.packed_sequence_size dataset.offline_packing_specs.pad_seq_to_mult "
    "dataset.offline_packing_specs.pad_cu_seqlens dataset.offline_packing_specs.num_tokenizer_workers "
    "dataset.offline_packing_specs.packed_train_data_path dataset.enable_in_batch_packing "
    "dataset.defer_in_batch_packing_to_step dataset.in_batch_packing_pad_to_multiple_of dataset.pad_to_multiple_of "
    "dataset.pad_to_max_length dataset.dataset_kwargs.pad_to_max_length dataset.packing_buffer_size "
    "dataset.enable_global_batch_packing dataset.micro_batch_size dataset.dataloader_type "
    "checkpoint.pretrained_checkpoint checkpoint.save peft mixed_precision"
).split()


class Effective(NamedTuple):
    """One value as it will be: its key in the release's spelling, as text, and where it comes from."""

    key: str
    text: str
    origin: str


def effective_values(run: Run) -> Iterator[Effective]:
    """The values that matter for packing and topology, then everything else the user wrote."""
    seen = set()
    for key in SHOWN:
        try:
            setting = run.setting(key)
        except Unknown as unknown:
            flag = f" (--{unknown.needs[0]})" if unknown.needs and unknown.needs[0] in ("recipe", "gpus", "launcher") else ""
            yield Effective(path_in(run.release, key), "?", f"unknown{flag}")
            continue
        if setting.value is ABSENT:
            continue
        seen.add(setting.key)
        yield _final(run, key, setting)
    for setting in _written(run):
        if setting.key not in seen and not isinstance(setting.value, Object):
            yield Effective(setting.key, as_text(setting.value), _origin(setting))


def _written(run: Run) -> Iterator[Setting]:
    from mbpack.config.items import walk

    done = set()
    for layer in run.settings.layers:
        for parts, item in walk(layer.root):
            path = ".".join(str(part) for part in parts)
            if path and not isinstance(item.value, dict) and path not in done and "_target_" not in path:
                if any(isinstance(part, int) for part in parts):
                    continue
                done.add(path)
                yield Setting(path, item.plain, layer.origin, item, layer.document)


def _final(run: Run, key: str, setting: Setting) -> Effective:
    for change in (_launcher, _upstream):
        try:
            changed = change(run, key, setting)
        except (Unknown, WrongKind):
            changed = None
        if changed is not None and changed[0] != setting.value:
            value, reason = changed
            was = f", replaces {as_text(setting.value)} ({_origin(setting)})"
            return Effective(setting.key, as_text(value), reason + was)
    return Effective(setting.key, as_text(setting.value), _origin(setting))


def _launcher(run: Run, key: str, setting: Setting) -> tuple[Any, str] | None:
    """What ``run_recipe.py`` sets before the validation; source: ``scripts/training/recipe_runner.py`` (0.6, 0.7)."""
    if run.context.launcher != "run_recipe" or run.release < R04:
        return None
    if key == "model.seq_length" and run.dataset is not DatasetKind.PRETRAIN:
        return run.value("dataset.seq_length"), "set by run_recipe.py from dataset.seq_length"
    if run.release < R06 or not run.finetuning:
        return None
    if key == "dataset.offline_packing_specs.packed_sequence_size" and run.offline:
        return run.value("dataset.seq_length"), "set by run_recipe.py from dataset.seq_length"
    if key == "dataset.offline_packing_specs.pad_seq_to_mult" and run.offline:
        own = run.number(key) or 1
        return formulas.lcm(int(own), run.mult.value), f"set by run_recipe.py: {run.mult.because}"
    if max(run.cp, run.eval_cp or 1) > 1:
        if key == "model.calculate_per_token_loss":
            return True, "set by run_recipe.py for context parallelism"
        if key == "ddp.average_in_collective":
            return False, "set by run_recipe.py for context parallelism"
    return None


def _collates(run: Run) -> bool:
    return run.release >= R06 and run.dataset in COLLATING


_UPSTREAM: dict[str, Callable[[Run], tuple[Any, str] | None]] = {
    "model.sequence_parallel": lambda run: (run.sp, "off at tensor parallel 1") if run.release >= R04 else None,
    "model.expert_tensor_parallel_size": lambda run: (run.etp, "default of this release"),
    "validation.eval_micro_batch_size": lambda run: (run.eval_mbs, "that of training") if run.release >= R05 else None,
    "validation.eval_global_batch_size": lambda run: (run.eval_gbs, "that of training") if run.release >= R05 else None,
    "dataset.in_batch_packing_pad_to_multiple_of": lambda run: (
        (run.mult.value, f"derived: {run.mult.because}") if run.release >= R06 and run.in_batch else None
    ),
    "dataset.pad_to_multiple_of": lambda run: (
        (
            formulas.unpacked_multiple(int(run.number("dataset.pad_to_multiple_of", 128)), run.mult.value).value,
            f"derived: lcm with {run.mult.value}",
        )
        if _collates(run) and not run.in_batch and not run.energon_packing
        else None
    ),
    "dataset.pad_to_max_length": lambda run: (
        (True, "forced by pipeline or expert parallelism") if _collates(run) and (run.pp > 1 or run.ep > 1) else None
    ),
}


def _upstream(run: Run, key: str, setting: Setting) -> tuple[Any, str] | None:
    compute = _UPSTREAM.get(key)
    return compute(run) if compute is not None else None


def _origin(setting: Setting) -> str:
    if setting.origin is Origin.FILE and setting.item is not None:
        return f"file, line {setting.item.span.line}"
    words = {Origin.RECIPE: "recipe", Origin.DEFAULT: "class default", Origin.OVERRIDE: "override", Origin.FILE: "file"}
    return words[setting.origin] + (" (likely)" if setting.likely else "")


def as_text(value: Any) -> str:
    """A value as YAML would write it, short."""
    if isinstance(value, Object):
        return value.name or "{...}"
    if isinstance(value, Opaque):
        return value.text
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value and value == value.strip() and "\n" not in value else repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(as_text(item) for item in value) + "]"
    return str(value)
