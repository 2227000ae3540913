"""Which release a configuration is written for, by what it shows: its keys and classes, the options of its launch, its recipe.

Nothing of it is certain, and the report says what told.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from mbpack.config.document import Item
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.launchers import flags_named
from mbpack.facts.releases import DEFAULT, NIGHTLY, R03, R04, R05, R06, R07, RELEASES, Release
from mbpack.facts.schema import Schema, schema

#: Releases that are written down as such; nightly shows itself by its own keys alone.
PUBLISHED = tuple(release for release in RELEASES if release < NIGHTLY)
#: What told where the fields of a saved file fit one release best.
BEST_FIT = "its classes and fields"
#: What tells (a dotted path, a class, an option), and the oldest and newest release that have it.
Mark = tuple[str, "Release | None", "Release | None"]

#: What a key, anywhere in a file, tells about the release: (dotted path or ``_target_`` value, oldest, newest).
_KEY_MARKERS: tuple[Mark, ...] = (
    ("dataset.fold_alignment_padding", NIGHTLY, None),
    ("model.dynamic_context_parallel", NIGHTLY, None),
    ("model.min_dynamic_context_parallel_size", NIGHTLY, None),
    ("dataset.enable_global_batch_packing", R07, None),
    ("model.sequence_packing_scheduler", R07, None),
    ("dataset.source_weights", R07, None),
    ("dataset.blend_seed", R07, None),
    ("dataset.hf_processor_kwargs", R07, None),
    (SPECS, R06, None),
    (OFFLINE_SWITCH, R06, None),
    ("dataset.enable_in_batch_packing", R06, None),
    ("dataset.preprocessing", R06, None),
    ("dataset.hf_dataset", R06, None),
    ("train.num_epochs", R06, None),
    ("env_vars", R06, None),
    ("dist.eval_context_parallel_size", R05, None),
    ("validation.eval_micro_batch_size", R05, None),
    ("validation.eval_global_batch_size", R05, None),
    ("model.cuda_graph_modules", R05, None),
    ("dataset.packed_sequence_specs", None, R05),
    ("dataset.pack_sequences_in_batch", None, R05),
    ("dist.lazy_init", None, R03),
    ("validation", R04, None),
    ("dist.lazy_mpu_init", R04, None),
    ("dataset.packed_sequence_specs.num_tokenizer_workers", R04, R05),
    ("dataset.maker_name", None, R05),
    ("dataset.maker_kwargs", None, R05),
    ("dataset.skip_test", None, R05),
    ("dataset.train_data_path", None, R05),
    ("dataset.valid_data_path", None, R05),
    ("dataset.test_data_path", None, R05),
)
_TARGET_MARKERS: tuple[Mark, ...] = (
    ("megatron.bridge.training.config.FinetuningDatasetConfig", None, R05),
    ("megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs", None, R05),
    ("megatron.bridge.data.packing.config.PackedSequenceSpecs", R06, None),
    ("megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig", R06, None),
    ("megatron.bridge.data.builders.energon.EnergonDatasetConfig", R06, None),
    ("megatron.bridge.data.builders.direct_hf_sft.DirectHFSFTDatasetConfig", R06, None),
    ("megatron.bridge.data.energon.energon_provider.EnergonProvider", None, R05),
    ("megatron.bridge.data.vlm_datasets.hf_provider.HFDatasetConversationProvider", None, R05),
    ("megatron.bridge.data.builders.hf_dataset.HFDatasetConfig", None, R05),
)


def shown_release(roots: Sequence[Item], options: Iterable[str] = (), recipe: str | None = None) -> tuple[Release, str]:
    """The release that a configuration shows, and what told; the newest published one and "" when nothing does.

    ``options`` are those of a launch of ``run_recipe.py``; ``recipe`` is a recipe by name.
    """
    told = _best_fit(roots) or infer_release(roots, options)
    release, marker = told if told is not None else (DEFAULT, "")
    if recipe is not None and re.fullmatch(r"\w+", recipe):
        from mbpack.facts import recipes

        if recipes.find(release.name, recipe) is None:
            others = [other for other in reversed(PUBLISHED) if recipes.find(other.name, recipe) is not None]
            if others:
                return others[0], f"recipe {recipe}"
    return release, marker


def infer_release(roots: Iterable[Item], options: Iterable[str] = ()) -> tuple[Release, str] | None:
    """The release a file shows by its keys, with the key that told; None when nothing does.

    The markers bound the release from below and above. Within the bounds the newest published release wins, so that a
    file with old keys means 0.5 and one with new keys 0.6. Contradicting markers (an old key beside a new one) are
    read as a half-finished migration: the newer bound wins.
    """
    oldest: Release = R03
    newest: Release | None = None
    told_old = told_new = None
    for path, low, high in [*_found_markers(roots), *_options(options)]:
        if low is not None and (told_old is None or low > oldest):
            oldest, told_old = low, path
        if high is not None and (newest is None or high < newest):
            newest, told_new = high, path
    if told_old is None and told_new is None:
        return None
    if newest is not None and (told_old is None or newest >= oldest):
        return newest, told_new or ""
    if oldest > DEFAULT:
        return oldest, told_old or ""
    return DEFAULT, told_old or ""


def last_with(marker: str) -> Release | None:
    """The newest release that has the key or class that told a release; None where newer ones have it too."""
    for path, _, newest in (*_KEY_MARKERS, *_TARGET_MARKERS):
        if newest is not None and marker in (path, path.rpartition(".")[2] if path.startswith("megatron.") else path):
            return newest
    return None


def excludes(roots: Sequence[Item], release: Release) -> str | None:
    """What in a configuration a release does not have or no longer has; None where nothing speaks against it."""
    fit = _best_fit(roots)
    if fit is not None and fit[0] is not release:
        return fit[1]
    for path, low, high in _found_markers(roots):
        if (low is not None and release < low) or (high is not None and release > high):
            return path
    return None


def _found_markers(roots: Iterable[Item]) -> Iterable[Mark]:
    for root in roots:
        if not isinstance(root.value, dict):
            continue
        for path, low, high in _KEY_MARKERS:
            item: Item | None = root
            for part in path.split("."):
                item = item.value.get(part) if item is not None and isinstance(item.value, dict) else None
            if item is not None and (item.value is not None or high is not None):  # an old name tells even where it is null
                yield path, low, high
        targets = set(_targets(root, 0))
        for target, low, high in _TARGET_MARKERS:
            if target in targets:
                yield target.rpartition(".")[2], low, high


def _options(options: Iterable[str]) -> Iterator[Mark]:
    for option in options:
        meanings = flags_named(option)
        if meanings:
            since, until = min(flag.since for flag in meanings), max(flag.until for flag in meanings)
            if since > R03 or until < NIGHTLY:
                yield option, since if since > R03 else None, until if until < NIGHTLY else None


def _best_fit(roots: Sequence[Item]) -> tuple[Release, str] | None:
    """The release whose classes hold most of a saved file; None for other files, and where all hold the same."""
    if not roots or not _is_saved(roots[0]):
        return None
    objects = list(_objects(roots[0], 0))
    misfits = {release: sum(_misfits(schema(release.name), target, keys) for target, keys in objects) for release in PUBLISHED}
    best = min(misfits.values())
    if max(misfits.values()) == best:
        return None
    fitting = [release for release in PUBLISHED if misfits[release] == best]
    lacking = {release: sum(_lacks(schema(release.name), target, keys) for target, keys in objects) for release in fitting}
    fewest = min(lacking.values())
    if 3 * fewest < len(objects):  # what a release saves has all its fields, but for a few that it cannot write
        fitting = [release for release in fitting if lacking[release] == fewest]
    return DEFAULT if DEFAULT in fitting else max(fitting), BEST_FIT


def _is_saved(root: Item) -> bool:
    target = root.value.get("_target_") if isinstance(root.value, dict) else None
    return target is not None and isinstance(target.value, str) and target.value.endswith(".ConfigContainer")


def _objects(item: Item, depth: int) -> Iterator[tuple[str, Collection[str]]]:
    """Every object of the packages in a file: its path, and the names of its fields."""
    if not isinstance(item.value, dict) or depth > 4:
        return
    target = item.value.get("_target_")
    if target is not None and isinstance(target.value, str) and target.value.startswith("megatron."):
        yield target.value, item.value.keys()
    for child in item.value.values():
        yield from _objects(child, depth + 1)


def _misfits(known: Schema, target: str, keys: Collection[str]) -> int:
    if target.endswith(".ConfigContainer"):
        return sum(name not in known.sections and name != "_target_" for name in keys)
    cls = known.class_of(target)
    if cls is None:
        return len(keys) if known.importable(target) is False else 0
    fields = known.fields(cls) or {}
    return sum(name not in fields and not str(name).startswith("_") for name in keys)


def _lacks(known: Schema, target: str, keys: Collection[str]) -> bool:
    fields = known.fields(known.class_of(target) or "") or {}
    return any(name not in keys and field.init for name, field in fields.items())


def _targets(item: Item, depth: int) -> Iterable[str]:
    if not isinstance(item.value, dict) or depth > 3:
        return
    target = item.value.get("_target_")
    if target is not None and isinstance(target.value, str):
        yield target.value
    for child in item.value.values():
        yield from _targets(child, depth + 1)
