"""Hugging Face sources: what each has to say about its dataset, its files and its split (0.6 and later)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mbpack.config.document import MISSING, Interpolation, Item
from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown, walk
from mbpack.facts.classes import DatasetKind
from mbpack.facts.hf_presets import HF_ADAPTERS, HF_PRESET_ARGUMENTS, HF_PRESET_SPLITS, LOAD_FIELDS
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, is_blank, set_to, words

PROCESSOR = "dataset.hf_processor_path"
#: Sources of a dataset class, with the switch without which they are not looked at.
_DIRECT = (
    ("dataset.source", None),
    ("dataset.validation_source", "dataset.do_validation"),
    ("dataset.test_source", "dataset.do_test"),
)
_GPT_SFT = (("dataset.hf_dataset", None), ("dataset.hf_validation_dataset", None), ("dataset.hf_test_dataset", None))


def free_mapping(run: Run, key: str) -> Any:
    """The plain value of a free mapping, merged over the recipe and all layers; None where nobody gave one.

    Raises:
        Unknown: a recipe that was not named may hold more, or a value is an expression.
    """
    if not run.settings.base_known:
        raise Unknown(key, ("recipe",))
    recipe = run.settings.recipe
    value = recipe.values.get(key) if recipe is not None else None
    if isinstance(value, Mapping):
        value = run.settings.recipe_entries(key)
    for layer in reversed(run.settings.layers):
        item = walk(layer.root, key.split("."))
        if item is not None:
            value = _merged(value, item, key)
    return value


def _merged(base: Any, item: Item, key: str) -> Any:
    value = item.value
    if value is MISSING:
        return base
    if isinstance(value, Interpolation):
        raise Unknown(key, ("value",), "an expression")
    if isinstance(value, dict):
        held = dict(base) if isinstance(base, Mapping) else {}
        return {**held, **{name: _merged(held.get(name, "???"), child, key) for name, child in value.items()}}
    return [_merged(None, child, key) for child in value] if isinstance(value, list) else value


def _no_file(value: Any) -> bool:
    """Whether ``data_files`` names no file somewhere: null, blank text, nothing in a list or a mapping."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, (list, Mapping)):
        parts = value.values() if isinstance(value, Mapping) else value
        return not value or any(_no_file(part) for part in parts)
    return value is None


class HfSource(RejectingRule):
    """A Hugging Face source names one dataset, its files and a split it has.

    A source is either a preset (`dataset_name`) or a dataset of one's own (`path_or_dataset`), never both. With
    `load_kwargs.data_files` every file must be named: recipes for local JSONL hold nulls there that wait for the
    user's paths, so such a recipe does not start as it is.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_omni_30b_a3b_sft_8gpu_h100_bf16_hf_json_config gpus=8 launcher=script
    dataset:
      source: {load_kwargs: {data_files: {train: data/train.jsonl}}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_omni_30b_a3b_sft_8gpu_h100_bf16_hf_json_config gpus=8 launcher=script
    dataset:
      source: {load_kwargs: {data_files: {train: data/train.jsonl}}}
      validation_source: {load_kwargs: {data_files: {validation: data/validation.jsonl}}}
      do_test: false
    ```

    ## Upstream
    - 0.6, 0.7: `data/sources/hf.py`, `HFDatasetSourceConfig.validate`
    """

    code, slug = "DAT139", "data/hf-source"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        kind = run.dataset
        if kind is DatasetKind.DIRECT_HF:
            for key, switch in _DIRECT:
                if switch is None or run.flag(switch):
                    yield from self._source(run, key, f"{self.slug}@direct")
            yield from self._processor(run)
        elif kind is DatasetKind.GPT_SFT and run.value("dataset.dataset_root") is None:
            for key, _ in _GPT_SFT:
                yield from self._source(run, key, "")

    def _source(self, run: Run, key: str, station: str) -> Iterator[Finding]:
        source = run.value(key)
        if not isinstance(source, Object) or run.settings.class_at(key) is None:
            return  # cfg/nested-under-none
        for field, message, fix in (*self._files(run, key), *self._dataset(run, key), *self._rows(run, key)):
            place = f"{key}.{field}"
            yield self.finding(
                run,
                REJECTED,
                place if run.wrote(place) else key,
                f"{key}: {message}",
                related=(place,),
                fix=Fix(fix),
                station=station,
            )

    def _processor(self, run: Run) -> Iterator[Finding]:
        path = run.value(PROCESSOR)
        if path is not None and is_blank(path):
            yield self.finding(
                run,
                REJECTED,
                PROCESSOR,
                f"hf_processor_path must be text, found {in_yaml(path)}" if path != "" else "hf_processor_path is empty",
                fix=Fix("the processor's path or name, or null for the model's own", set_to(run, (PROCESSOR, None))),
                station=f"{self.slug}@direct",
            )

    @staticmethod
    def _files(run: Run, key: str) -> Iterator[tuple[str, str, str]]:
        load = free_mapping(run, f"{key}.load_kwargs")
        if load is not None and not isinstance(load, Mapping):
            yield "load_kwargs", f"load_kwargs must be a mapping, found {load!r}", "load_kwargs: {data_files: PATH}"
            return
        if load is not None and "data_files" in load and _no_file(load["data_files"]):
            empty = [name for name, path in load["data_files"].items() if _no_file(path)] if _is_map(load["data_files"]) else []
            yield (
                "load_kwargs",
                f"load_kwargs.data_files names no file{f' for {words(empty)}' if empty else ''}",
                "the paths of the files; a split without files: its source null, or do_validation or do_test off",
            )
        adapter = free_mapping(run, f"{key}.adapter_kwargs")
        if adapter is not None and not isinstance(adapter, Mapping):
            yield "adapter_kwargs", f"adapter_kwargs must be a mapping, found {adapter!r}", "adapter_kwargs: null"
        repeated = [name for name in LOAD_FIELDS if name in (load or {})]
        if repeated:
            yield "load_kwargs", f"load_kwargs repeats {words(repeated)} of the source", "the source's own fields alone"

    def _dataset(self, run: Run, key: str) -> Iterator[tuple[str, str, str]]:
        name, path, split = (run.value(f"{key}.{field}") for field in ("dataset_name", "path_or_dataset", "split"))
        if split is not None and is_blank(split):
            yield "split", f"split must be a name, found {split!r}", "split: train"
            return
        if (name is None) == (path is None):
            found = "neither is set" if name is None else "both are set"
            yield (
                "path_or_dataset",
                f"a preset (dataset_name) or a dataset of one's own (path_or_dataset): {found}",
                "one of the two"
                if name is None
                else f"dataset_name: null, {'to read your own' if run.wrote(f'{key}.path_or_dataset') else 'or no path_or_dataset'}",
            )
        elif name is None:
            if is_blank(path):
                yield "path_or_dataset", f"path_or_dataset must be a path or a name, found {path!r}", "path_or_dataset: json"
        elif is_blank(name):
            yield "dataset_name", f"dataset_name must be a name, found {name!r}", "dataset_name: squad"
        elif run.release > R06 and name not in HF_PRESET_SPLITS:
            return  # later releases may know more presets
        elif name not in HF_PRESET_SPLITS:
            yield "dataset_name", f"there is no preset {name}", f"{words(sorted(HF_PRESET_SPLITS), 'or')}, or path_or_dataset"
        else:
            yield from self._preset(run, key, name, split)

    @staticmethod
    def _preset(run: Run, key: str, name: str, split: str | None) -> Iterator[tuple[str, str, str]]:
        owned = [field for field in ("subset", "schema_adapter") if run.is_set(f"{key}.{field}")]
        if owned:
            yield owned[0], f"the preset {name} has its own {words(owned)}", f"{owned[0]}: null"
        given = _arguments(run, key)
        if key != "dataset.source" and run.dataset is DatasetKind.DIRECT_HF:
            if run.value("dataset.source.dataset_name") == name:  # arguments of the training source are taken over
                given = {**_arguments(run, "dataset.source"), **given}
        for argument in HF_PRESET_ARGUMENTS.get(name, ()):
            if is_blank(given.get(argument)):
                yield "adapter_kwargs", f"the preset {name} needs adapter_kwargs.{argument}", f"adapter_kwargs.{argument}: PATH"
        splits = HF_PRESET_SPLITS[name]
        wrong = [part for part in (split or "").split("+") if split and part.partition("[")[0] not in splits]
        if wrong:
            yield "split", f"the preset {name} has no split {words(map(repr, wrong))}", words(splits, "or")

    @staticmethod
    def _rows(run: Run, key: str) -> Iterator[tuple[str, str, str]]:
        subset, adapter = run.value(f"{key}.subset"), run.value(f"{key}.schema_adapter")
        names = subset if isinstance(subset, list) else [subset]
        if subset is not None and (not names or any(is_blank(part) for part in names)):
            yield "subset", f"subset must be a name or a list of names, found {subset!r}", "subset: null"
        if adapter is None:
            return
        if is_blank(adapter) or (run.release == R06 and adapter not in HF_ADAPTERS):
            yield "schema_adapter", f"there is no schema adapter {adapter}", words(sorted(HF_ADAPTERS), "or")


def _arguments(run: Run, source: str) -> Mapping[str, Any]:
    """Arguments of a source's adapter; none where something else than a mapping stands there."""
    held = free_mapping(run, f"{source}.adapter_kwargs")
    return held if isinstance(held, Mapping) else {}


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


RULES: tuple[Rule, ...] = (HfSource(),)
