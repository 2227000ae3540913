"""One answer is changed: which of the others stay, which follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mbpack.facts import recipes
from mbpack.wizard import catalog
from mbpack.wizard.answers import HF, KINDS
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.naming import size_of
from mbpack.wizard.plan import make_plan
from mbpack.wizard.questions import QUESTIONS

#: What the other answers are about.
JOB = ("bridge", "workload", "recipe")
_ORDER = {question.key: number for number, question in enumerate(QUESTIONS)}


def fault(draft: Draft) -> str | None:
    """Why a draft, with defaults for what is open, gives no configuration; None when it gives one, or where nothing can be told:
    no recipe is named, or data that do not say what they are."""
    try:
        if draft.get("recipe") is None:
            _ = draft.version
            return None
        if not draft.given("data") and not draft.default("data").known:
            return None
        make_plan(draft)
    except Refused as refused:
        return refused.reason
    return None


def settled(answers: Mapping[str, Any], key: str, value: Any) -> dict[str, Any] | str:
    """The answers with another one to ``key``: answers to later questions that no longer fit are left out, so that defaults follow.

    Another release or another kind of training takes the recipe of the same model there. Returns the reason, in the doctor's
    words where it has any, when nothing fits.
    """
    aside = {"family", "size", *({"token_slots"} if key == "gbs" else ())}
    named = {name: held for name, held in answers.items() if name not in aside}
    if key == "data_path" and (named.get("data") == HF or Draft({**named, key: value}).default("data").known):
        named.pop("data", None)  # they say themselves what they are, or it is asked
    trial = {**named, key: value}
    whole = fault(Draft(trial))
    if whole is None:
        return trial
    if key in ("bridge", "workload") and "recipe" in named:
        held = Draft(named)
        work = trial.get("workload", held.get("workload"))
        other = counterpart(held, Draft({"bridge": trial.get("bridge", held.get("bridge")), "workload": work}))
        trial["recipe"] = other if other is not None else trial["recipe"]
    if key == "recipe":
        trial.pop("workload", None)
    first = {name: trial[name] for name in trial if name in JOB or _ORDER.get(name, len(_ORDER)) <= _ORDER[key]}
    return whole if fault(Draft(first)) is not None else fitting(trial, first)


def fitting(answers: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """The ``first`` answers, and of the others those that fit one after the other; all where all fit together."""
    if fault(Draft(answers)) is None:
        return dict(answers)
    kept = dict(first)
    for name in KINDS:
        if name in answers and name not in kept and fault(Draft({**kept, name: answers[name]})) is None:
            kept[name] = answers[name]
    return kept


def counterpart(held: Draft, wanted: Draft) -> str | None:
    """The recipe of the same model for another release or another kind of training; None where there is none."""
    recipe, release, workload = held.recipe, wanted.release, wanted.get("workload")
    found = recipes.find(release.name, recipe.name)
    if found is not None and catalog.task(found) == catalog.task_of(workload):
        return recipe.name
    others = [one for one in catalog.matching(release, workload) if catalog.modality(one) == catalog.modality(recipe)]
    same = [one for one in others if recipe.hf_id is not None and one.hf_id == recipe.hf_id]
    same = same or [one for one in others if one.family == recipe.family and size_of(one) == size_of(recipe)]
    return same[0].name if same else None
