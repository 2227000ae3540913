"""Which recipes of a release a file without one may stand on: those whose classes have the keys that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import eq
from typing import Any

from mbpack.config.run import Run
from mbpack.engine.split import Part, whole
from mbpack.facts.keys import EP, ETP
from mbpack.facts.recipe_sets import RecipeTable, table
from mbpack.facts.recipes import find

#: Keys of experts, beside those whose names begin with ``moe_``.
_EXPERTS = (EP.partition(".")[2], ETP.partition(".")[2], "num_moe_experts")
_DATASET, _MODEL, _ADAPTER = "dataset", "model", "peft"


def candidates(run: Run) -> Part:
    """The recipes that fit what a run without a recipe writes, as one part.

    Recipes that make a written key impossible (a field their dataset or model does not have, an adapter where there is none,
    experts on a dense model) leave the set while others remain. Where a script chooses among some names, they are the set.
    """
    held = table(run.release.name)
    mask = 0
    for name in run.context.recipes:
        recipe = find(run.release.name, name)
        mask |= held.bit(recipe.name) if recipe is not None else 0
    mask = mask or held.all
    for fits in _tests(run, held):
        mask = mask & fits or mask
    return whole(run, held, mask)


def _tests(run: Run, held: RecipeTable) -> Iterator[int]:
    """For each thing that is written, the recipes it fits, the most telling first."""
    written = dict(_leaves(run))
    for owner, attribute in ((_DATASET, "dataset_class"), (_MODEL, "model_class")):
        target = run.settings.target_at(owner)
        if target is not None and isinstance(target.value, str):
            cls = run.settings.schema.class_of(target.value)
            yield _with(held, attribute, partial(eq, cls))
            continue
        for field in written.get(owner, ()):
            yield _with(held, attribute, partial(_has, run, field))
    if written.get(_ADAPTER):
        yield held.with_value(_ADAPTER)
    if any(_about_experts(name, run) for name in written.get(_MODEL, ())):
        yield held.with_value("model.num_moe_experts")
    tokenizer = run.settings.written("tokenizer.tokenizer_model")
    if tokenizer is not None:
        yield _with(held, "hf_id", partial(eq, tokenizer.value))


def _leaves(run: Run) -> Iterator[tuple[str, Sequence[str]]]:
    for name, item, _ in run.settings.sections():
        if isinstance(item.value, dict):
            yield name, [key for key in item.value if isinstance(key, str) and not key.startswith("_")]


def _has(run: Run, field: str, cls: str | None) -> bool:
    known = run.settings.schema
    fields = known.fields(cls) if cls is not None else None
    if cls is None or fields is None:
        return False
    return field in fields or field in known.attributes(cls) or known.nested_transformer(cls)


def _about_experts(name: str, run: Run) -> bool:
    if name not in _EXPERTS:
        return name.startswith("moe_")
    value = run.maybe(f"model.{name}")
    return isinstance(value, int) and value > 1


def _with(held: RecipeTable, attribute: str, fits: Callable[[Any], bool]) -> int:
    return sum(mask for answer, mask in held.attribute(attribute).answers if fits(answer))
