"""Which recipes of a release a file without one may stand on: those whose classes have the keys that it writes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import eq
from typing import Any

from mbpack.config.run import Run
from mbpack.engine.split import Part, whole
from mbpack.facts.keys import EP, ETP
from mbpack.facts.patterns import lazy
from mbpack.facts.recipe_sets import RecipeTable, bits, table
from mbpack.facts.recipes import find

#: Keys of experts, beside those whose names begin with ``moe_``.
_EXPERTS = (EP.partition(".")[2], ETP.partition(".")[2], "num_moe_experts")
#: Keys that hold the path of a model.
_PATHS = ("checkpoint.pretrained_checkpoint", "tokenizer.tokenizer_model", "dataset.hf_processor_path", "checkpoint.load")
#: What the names of models end in, whatever the model.
_DRESSING = lazy(r"(?:-(?:base|instruct|chat|it|hf|bf16|fp8|nvfp4|\d{4}))+$", re.IGNORECASE)
#: A field that only some models have tells more than one of a dataset, which a file may replace.
_WEIGHTS = {"dataset": 1, "model": 8}
_PART = lazy(r"[a-z0-9]+")
#: Parts of file names that say nothing about a recipe.
_COMMON = frozenset(
    {"config", "configs", "conf", "yaml", "yml", "override", "overrides", "recipe", "recipes", "train", "packing"}
)
_DATASET, _MODEL, _ADAPTER = "dataset", "model", "peft"


def candidates(run: Run) -> Part:
    """The recipes that fit what a run without a recipe writes, as one part.

    Recipes that make a written key impossible (a field their dataset or model does not have, an adapter where there is none,
    experts on a dense model) leave the set while others remain. Where a script chooses among some names, they are the set.
    What paths of checkpoints and tokenizers say of the model comes last. The file's name takes none out: those that it speaks of
    are named first.
    """
    held = table(run.release.name)
    part = whole(run, held, fitting(run, held))
    path = run.settings.layers[0].document.path if run.settings.layers else None
    if path not in (None, "-"):
        part.near = sum(held.bit(name) for name in by_file_name(path, part.names))
    return part


def fitting(run: Run, held: RecipeTable) -> int:
    """The mask of the candidates."""
    mask = 0
    for name in run.context.recipes:
        recipe = find(run.release.name, name)
        mask |= held.bit(recipe.name) if recipe is not None else 0
    mask = mask or held.all
    tests = [(fits, weight) for fits, weight in _tests(run, held) if fits]
    for fits, _ in tests:
        if not mask & fits:
            return _most_fitting(tests, held)
        mask &= fits
    return mask


def by_file_name(path: str | None, names: Sequence[str]) -> list[str]:
    """The recipes whose names share most with the file's and its directory's, at least two parts; the shortest first."""
    if path is None:
        return []
    folder, name = os.path.split(path)
    parts = set(_PART.findall(f"{os.path.basename(folder)} {os.path.splitext(name)[0]}".lower())) - _COMMON
    shared = {name: len(parts & set(_PART.findall(name))) for name in names}
    most = max(shared.values(), default=0)
    return sorted((name for name, count in shared.items() if count == most >= 2), key=lambda name: (len(name), name))


def _most_fitting(tests: Sequence[tuple[int, int]], held: RecipeTable) -> int:
    """Where no recipe fits everything that is written: those that fit most of it."""
    counts: dict[int, int] = {}
    for bit in bits(held.all):
        count = sum(weight for fits, weight in tests if fits & bit)
        counts[count] = counts.get(count, 0) | bit
    return counts[max(counts)]


def _tests(run: Run, held: RecipeTable) -> Iterator[tuple[int, int]]:
    """For each thing that is written, the recipes it fits, the most telling first, and what it weighs."""
    written = dict(_leaves(run))
    for owner, attribute in ((_DATASET, "dataset_class"), (_MODEL, "model_class")):
        target = run.settings.target_at(owner)
        if target is not None and isinstance(target.value, str):
            cls = run.settings.schema.class_of(target.value)
            yield _with(held, attribute, partial(eq, cls)), _WEIGHTS[owner]
            continue
        for field in written.get(owner, ()):
            yield _with(held, attribute, partial(_has, run, field)), _WEIGHTS[owner]
    if written.get(_ADAPTER):
        yield held.with_value(_ADAPTER), 1
    if any(_about_experts(name, run) for name in written.get(_MODEL, ())):
        yield held.with_value("model.num_moe_experts"), 1
    tokenizer = run.settings.written("tokenizer.tokenizer_model")
    if tokenizer is not None:
        yield _with(held, "hf_id", partial(eq, tokenizer.value)), 1
    for key in _PATHS:
        setting = run.settings.written(key)
        if setting is not None and isinstance(setting.value, str):
            yield from ((fits, 1) for fits in _named(held, setting.value))


def _named(held: RecipeTable, path: str) -> Iterator[int]:
    """The recipes of the model that a path speaks of: by the family's name, then by the model's own."""
    words = _letters(path)
    family = sum(1 << place for place, name in enumerate(held.names) if _letters(name.partition("_")[0]) in words)
    if family:
        yield family
        yield _with(held, "hf_id", lambda model: bool(model) and _letters(_DRESSING.sub("", model.rpartition("/")[2])) in words)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _leaves(run: Run) -> Iterator[tuple[str, Sequence[str]]]:
    for name, item, _ in run.settings.sections():
        if isinstance(item.value, dict):
            yield name, [key for key in item.value if isinstance(key, str) and not key.startswith("_")]


def _has(run: Run, field: str, cls: str | None) -> bool:
    known = run.settings.schema
    fields = known.fields(cls) if cls is not None else None
    if cls is None or fields is None:
        return False
    inner = known.fields(known.transformer_class(cls) or "") if known.nested_transformer(cls) else None
    return field in fields or field in known.attributes(cls) or (inner is not None and field in inner)


def _about_experts(name: str, run: Run) -> bool:
    if name not in _EXPERTS:
        return name.startswith("moe_")
    value = run.maybe(f"model.{name}")
    return isinstance(value, int) and value > 1


def _with(held: RecipeTable, attribute: str, fits: Callable[[Any], bool]) -> int:
    return sum(mask for answer, mask in held.attribute(attribute).answers if fits(answer))
