"""The parts of a migration that change keys: renames, dataset classes, the packing switch, specs, graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import OFFLINE_SWITCH, RENAMES, SPECS, path_in, rename_of, specs_target
from mbpack.facts.migration import ALL_WORKERS, CLASS_CHANGES, SOME_WORKERS, SOURCE_CLASS, SOURCE_FIELD, ClassChange
from mbpack.facts.preprocessing import SEMANTIC_KWARGS, kwargs_of, preprocessing_of
from mbpack.facts.releases import R05, R06, Release
from mbpack.facts.schema import schema
from mbpack.fix import hub_data

if TYPE_CHECKING:
    from mbpack.config.run import Run
    from mbpack.fix.migrate import Migration


#: The class that reads local files before 0.6.
LOCAL_CLASS = "megatron.bridge.training.config.FinetuningDatasetConfig"


def keys(made: Migration) -> None:
    """Keys that have another name in the new release."""
    release = made.target.release
    for rename in RENAMES:
        if rename.new == "model.cuda_graph_modules":
            continue  # two live keys: see graphs
        old, new = (rename.old, rename.new) if release >= rename.since else (rename.new, rename.old)
        crossed = (made.source < rename.since) is not (release < rename.since)
        if made.get(old) is None or not (crossed or rename_of(release, old) is not None):
            continue
        if made.get(new) is not None:
            made.decide.append(f"{old} and {new} are both written; {old} is removed, check the value of {new}")
            made.edit("delete", old)
            continue
        section = new.rpartition(".")[0]
        if made.get("_target_") is not None and made.get(section) is None:  # a complete file needs the section's class
            cls = schema(release.name).section_class(section)
            path = schema(release.name).path(cls) if cls is not None else None
            if path is not None:
                made.edit("set", f"{section}._target_", path)
        made.edit("rename", old, to=new)


def dataset_class(made: Migration, before: str | None) -> None:
    """The dataset under its new class, with the fields that moved; what follows from nothing is listed."""
    release = made.target.release
    change, upwards = _class_change(made, before, release)
    if change is None:
        return
    target, written = made.get("dataset._target_"), made.get("dataset")
    held = written.value if written is not None and isinstance(written.value, dict) else {}
    names_written = {str(name) for name, item in held.items() if item.value is not None}
    if target is not None:
        made.edit("set", "dataset._target_", change.new if upwards else change.old)
    if not upwards:
        hub_data.before(made)
    moved = False
    for old, new in change.fields.items():
        here, there = (f"dataset.{old}", f"dataset.{new}") if upwards else (f"dataset.{new}", f"dataset.{old}")
        if made.get(here) is not None:
            moved = made.edit("rename", here, to=there) or moved
    source = f"dataset.{SOURCE_FIELD}"
    if upwards and moved and made.get(source) is not None and made.get(f"{source}._target_") is None:
        path = schema(release.name).path(SOURCE_CLASS)
        if path is not None:
            made.edit("set", f"{source}._target_", path)
    if not upwards and made.get(f"{source}._target_") is not None:
        made.edit("delete", f"{source}._target_")
    for names, text in change.by_hand if upwards else change.back_by_hand:
        if names_written.intersection(names):
            made.decide.append(text)


def _class_change(made: Migration, before: str | None, release: Release) -> tuple[ClassChange | None, bool]:
    target = made.get("dataset._target_")
    name = str(target.value).rpartition(".")[2] if target is not None else before
    for change in CLASS_CHANGES:
        if release >= change.since > made.source and name == change.old_name():
            return change, True
        if release < change.since <= made.source and name == change.new_name():
            source = made.get(f"dataset.{SOURCE_FIELD}")
            if change.old_name() == "FinetuningDatasetConfig" and source is not None and source.value is not None:
                continue  # data from the Hugging Face hub had a class of their own
            return change, False
    return None, False


def local_data(made: Migration, run: Run | None) -> None:
    """Local files on a recipe that reads the Hugging Face hub in the new release: there can be only one source."""
    if run is None or made.get("dataset.dataset_root") is None or made.source >= R06 or run.release < R06:
        return
    for name in ("hf_dataset", "hf_validation_proportion"):
        key = f"dataset.{name}"
        held = run.settings.peek(key)
        if held is not None and held.value is not None and not held.absent and made.get(key) is None:
            made.edit("set", key, None, note="the recipe's source, replaced by dataset_root")


def own_class(made: Migration, run: Run | None, before: Run | None) -> None:
    """Local files before 0.6, on a recipe whose dataset class reads the Hugging Face hub: another class has to be named."""
    root = made.get("dataset.dataset_root")
    if run is None or root is None or root.value is None or run.release >= R06 or made.source < R06:
        return
    if made.get("dataset._target_") is not None or run.settings.class_at("dataset") != "HFDatasetConfig":
        return
    for name in ("hf_dataset", "hf_validation_proportion", "hf_validation_dataset", "hf_output_root", "hf_rewrite"):
        if made.get(f"dataset.{name}") is not None:
            made.edit("delete", f"dataset.{name}", note=f"{run.release} has no such field")
    made.edit("set", "dataset._target_", LOCAL_CLASS, note="the recipe's class would read its own Hugging Face dataset")
    length = before.maybe("dataset.seq_length") if before is not None else None
    if made.get("dataset.seq_length") is None and isinstance(length, int):
        made.edit("set", "dataset.seq_length", length, note="a class named anew takes nothing from the recipe's")
    _own_specs(made, before)


def _own_specs(made: Migration, before: Run | None) -> None:
    """The specs of the recipe, written out: a class named anew does not take them."""
    path = path_in(made.target.release, SPECS)
    if before is None or made.get(path) is not None:
        return
    try:
        if not before.offline:
            return
    except (Unknown, WrongKind):
        return
    size, multiple = before.maybe(f"{SPECS}.packed_sequence_size"), before.maybe(f"{SPECS}.pad_seq_to_mult")
    made.edit("set", f"{path}._target_", specs_target(made.target.release))
    made.edit("set", f"{path}.packed_sequence_size", size)
    if isinstance(multiple, int):
        made.edit("set", f"{path}.pad_seq_to_mult", multiple)


def lengths(made: Migration, before: Run | None, run: Run | None) -> None:
    """One length is written, and the recipe of the new release has another one where the old recipe had the same."""
    if before is None or run is None:
        return
    keys = ("model.seq_length", "dataset.seq_length")
    old, new = ([held.maybe(key) for key in keys] for held in (before, run))
    written = [made.get(key) is not None for key in keys]
    if None in (*old, *new) or old[0] != old[1] or new[0] == new[1] or written[0] == written[1]:
        return
    if new[written.index(True)] == old[0]:
        made.edit("set", keys[written.index(False)], old[0], note="the recipe's length is another one now")


def needless_class(made: Migration, run: Run | None) -> None:
    """A dataset class that the recipe's dataset has anyway: naming it makes the dataset anew, without the recipe's objects."""
    recipe = run.settings.recipe if run is not None else None
    if run is None or recipe is None or made.get("dataset._target_") is None or run.release < R06:
        return
    if recipe.dataset_class == run.dataset_class:
        made.edit("delete", "dataset._target_", note="the recipe's dataset is of this class already")
        made.without_ignore("CFG118")


def preprocessing(made: Migration, run: Run | None) -> None:
    """Keys of dataset_kwargs that say what rows are: a section of their own from 0.6 on."""
    release = made.target.release
    if release < R06 <= made.source:
        _old_kwargs(made)
        return
    written = made.get("dataset.dataset_kwargs")
    if not (release >= R06 > made.source) or written is None or not isinstance(written.value, dict):
        return
    old = {name: item.value for name, item in written.value.items() if name in SEMANTIC_KWARGS}
    if not old or made.get("dataset.preprocessing") is not None or _other_dataset(run):
        return
    hub = made.get(f"dataset.{SOURCE_FIELD}")
    found = preprocessing_of(old, hub is not None and hub.value is not None)
    if isinstance(found, str) or not all(isinstance(value, (str, bool)) for value in old.values()):
        reason = found if isinstance(found, str) else "a value is no plain text or switch"
        made.decide.append(f"dataset.dataset_kwargs: {', '.join(sorted(old))} belong to dataset.preprocessing now: {reason}")
        return
    value = {"_target_": schema(release.name).path(found.class_name), **found.fields}
    if made.edit("set", "dataset.preprocessing", value, note=f"what {', '.join(sorted(old))} said"):
        for name in old:
            made.edit("delete", f"dataset.dataset_kwargs.{name}")


def _other_dataset(run: Run | None) -> bool:
    """Whether the dataset is certainly none of text rows for fine-tuning."""
    try:
        return run is not None and run.dataset is not DatasetKind.GPT_SFT
    except Unknown:
        return False


def _old_kwargs(made: Migration) -> None:
    """The way back: preprocessing as keys of dataset_kwargs."""
    written = made.get("dataset.preprocessing")
    if written is None or not isinstance(written.value, dict):
        return
    fields = {name: item.value for name, item in written.value.items()}
    target = fields.pop("_target_", None)
    found = kwargs_of(str(target).rpartition(".")[2], fields)
    if isinstance(found, str):
        made.decide.append(f"dataset.preprocessing: {found}")
        return
    for name, value in found.items():
        made.edit("set", f"dataset.dataset_kwargs.{name}", value)
    made.edit("delete", "dataset.preprocessing", note="dataset_kwargs says it before 0.6")


def packing_switch(made: Migration, complete: bool) -> None:
    """0.6 has a switch beside the specs; before, specs with a positive size were the switch."""
    release = made.target.release
    specs = made.get(path_in(release, SPECS))
    if release >= R06 and made.source < R06 and specs is not None and made.get(OFFLINE_SWITCH) is None:
        held = specs.value
        size = held.get("packed_sequence_size") if isinstance(held, dict) else None
        if held is None:
            made.edit("set", OFFLINE_SWITCH, False)
        elif size is not None and isinstance(size.value, int) and size.value <= 0:
            made.edit("set", OFFLINE_SWITCH, False, note=f"packed_sequence_size {size.value} meant no packing")
            made.edit("set", SPECS, None)
        else:
            made.edit("set", OFFLINE_SWITCH, True)
    elif release < R06 <= made.source:
        switch = made.get(OFFLINE_SWITCH)
        if switch is not None:
            off = switch.value is False
            made.edit("delete", OFFLINE_SWITCH, note="the specs are the switch")
            if off and (specs is None or specs.value is not None):
                made.edit("set", path_in(release, SPECS), None)
            elif not off and specs is None:
                made.decide.append(f"{path_in(release, SPECS)}: the specs that switch packing on, with packed_sequence_size")


def packing_specs(made: Migration) -> None:
    """The class of the specs, and fields that mean something else."""
    release = made.target.release
    path = path_in(release, SPECS)
    specs = made.get(path)
    if specs is None or not isinstance(specs.value, dict):
        return
    target = specs.value.get("_target_")
    if target is not None and target.value != specs_target(release):
        made.edit("set", f"{path}._target_", specs_target(release))
    workers = specs.value.get("num_tokenizer_workers")
    if release >= R06 > made.source and workers is not None and workers.value == ALL_WORKERS:
        made.edit("set", f"{path}.num_tokenizer_workers", SOME_WORKERS, note=f"{ALL_WORKERS} is serial from 0.6 on")
    for name, value in list(specs.value.items()):
        known = schema(release.name).fields("PackedSequenceSpecs") or {}
        if isinstance(name, str) and not name.startswith("_") and name not in known:
            made.edit("delete", f"{path}.{name}", note=f"{release} has no such field")
            if value.value is not None:
                made.decide.append(f"{path}.{name}: {value.plain} has no counterpart in {release}")


_SCOPE, _MODULES, _IMPL = "model.cuda_graph_scope", "model.cuda_graph_modules", "model.cuda_graph_impl"


def graphs(made: Migration) -> None:
    """CUDA graphs: the old scope key lives on; the new names of 0.5 have to be taken back for older releases."""
    release = made.target.release
    impl, scope, modules = (made.get(key) for key in (_IMPL, _SCOPE, _MODULES))
    if release < R05 <= made.source:
        if modules is not None:
            made.edit("rename", _MODULES, to=_SCOPE)
        if impl is not None and impl.value == "full_iteration":
            made.edit("set", _IMPL, "local")
            made.edit("set", _SCOPE, "full_iteration")
    elif release >= R05 > made.source and scope is not None and scope.value not in (None, []):
        if impl is not None and impl.value == "local" and _names(scope.value) == ["full_iteration"]:
            made.decide.append(f"{_IMPL}: local with scope full_iteration still works; {release} also calls it full_iteration")
        else:
            made.decide.append(
                f"{_SCOPE} still works in {release}; recipes set it, so {_MODULES} beside it is refused (set the scope to null then)"
            )


def _names(value: Any) -> list[Any]:
    return [item.value for item in value] if isinstance(value, list) else [value]
