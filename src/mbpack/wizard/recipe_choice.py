"""From a recipe name, or a family and a workload, to the recipe the override is written for."""

from __future__ import annotations

from mbpack.facts import recipes
from mbpack.facts.launchers import takes_scheme
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import RELEASES, Release
from mbpack.wizard import catalog
from mbpack.wizard.answers import DORA
from mbpack.wizard.draft import Draft, Refused


def choose_recipe(draft: Draft) -> Recipe:
    """The recipe of a draft.

    Raises:
        Refused: it does not exist in the release, cannot be called, or trains something else than the workload.
    """
    name = draft.get("recipe")
    if name is None:
        raise Refused(no_recipe(draft), "recipe")
    release = draft.release
    recipe = recipes.find(release.name, name)
    if recipe is None:
        raise Refused(unknown_recipe(release, name), "recipe")
    reason = catalog.unusable(recipe)
    if reason is not None:
        raise Refused(reason + _instead(release, recipe, draft), "recipe")
    if draft.given("family") and draft.given("recipe"):
        _same_family(draft, recipe)
    if draft.given("workload") and catalog.task(recipe) != catalog.task_of(draft.get("workload")):
        raise Refused(_other_task(draft, recipe), "workload")
    if draft.given("workload") and draft.get("workload") == DORA and not takes_scheme(release, recipe.name):
        raise Refused(f"{recipe.name} makes LoRA and nothing else: its function takes no peft_scheme", "workload")
    if draft.given("modality") and catalog.modality(recipe) != draft.get("modality"):
        words = "text only" if catalog.modality(recipe) == "text" else "images and video"
        raise Refused(f"{recipe.name} is for {words}, not for modality {draft.get('modality')}", "modality")
    return recipe


def _same_family(draft: Draft, recipe: Recipe) -> None:
    """A recipe and a family that were both named must agree; raises Refused where they do not."""
    text = draft.get("family")
    family = catalog.find_family(draft.release, text)
    if family is None:
        raise Refused(no_recipe(draft), "family")
    if family != recipe.family:
        raise Refused(f"{recipe.name} is of the family {recipe.family}, not of {text}: name one of the two", "family")


def unknown_recipe(release: Release, name: str) -> str:
    """Why a recipe name cannot be used: near names, or the releases that have it."""
    elsewhere = [other.name for other in RELEASES if other != release and recipes.find(other.name, name)]
    near = recipes.suggest(release.name, name)
    text = f"Megatron-Bridge {release} has no recipe {name}"
    if elsewhere:
        text += f" (it exists in {', '.join(elsewhere)})"
    return text + (f"; did you mean {' or '.join(near)}?" if near else "")


def no_recipe(draft: Draft) -> str:
    """Why no recipe answers to a draft: none named, no such family, or a family that has none for the work."""
    release = draft.release
    if not draft.given("family"):
        return "no recipe and no model family was named: use --recipe or --family"
    text = draft.get("family")
    family = catalog.find_family(release, text)
    if family is None:
        near = catalog.near_families(release, text)
        later = catalog.releases_with_family(text)
        hint = f" (it has recipes in {', '.join(later)})" if later else ""
        return f"Megatron-Bridge {release} has no recipe of the family {text}{hint}" + (
            f"; did you mean {' or '.join(near)}?" if near and not later else ""
        )
    workload = draft.get("workload")
    trains = sorted({catalog.task(recipe) for recipe in catalog.usable(release.name) if recipe.family == family})
    if not trains:
        return f"the recipes of the family {family} in {release} read datasets whose packing these keys do not govern"
    words = f"Megatron-Bridge {release} has no {catalog.task_of(workload)} recipe of the family {family}"
    if draft.given("modality"):
        words += f" for modality {draft.get('modality')}"
    return f"{words} (it has {', '.join(trains)})"


def _instead(release: Release, recipe: Recipe, draft: Draft) -> str:
    others = [name for name in catalog.siblings(release, recipe, "sft") if name != recipe.name]
    return f"; {others[0]} does full fine-tuning" if others and catalog.task(recipe) == catalog.PEFT else ""


def _other_task(draft: Draft, recipe: Recipe) -> str:
    workload = draft.get("workload")
    others = catalog.siblings(draft.release, recipe, workload)
    hint = f"; use {others[0]}" if others else f"; {draft.release} has none for the family {recipe.family}"
    return f"{recipe.name} is a {catalog.task(recipe)} recipe, not one for {workload}{hint}"
