"""Which recipe a name means: a Hugging Face id, words, or a family and a size. Never a size that nobody named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mbpack.facts import recipes
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import Release
from mbpack.wizard import catalog
from mbpack.wizard.draft import Draft, Refused

_SIZE = re.compile(r"(?:^|[_-])(\d+(?:p\d+|\.\d+)?[bm](?:[_-]a\d+(?:p\d+|\.\d+)?b)?)(?=[_-]|$)", re.IGNORECASE)
_TASK = re.compile(r"_(?:sft|peft|pretrain|finetune|lora)(?:_|$)")
#: Words that say nothing about the model.
_EMPTY = frozenset({"model", "the", "a", "recipe", "config"})
_TASKS = {"lora": "peft", "dora": "peft", "full": "sft", "finetune": "sft", "finetuning": "sft", "pretraining": "pretrain"}
_MOST_SHOWN = 12


def size_of(recipe: Recipe) -> str:
    """The size in a recipe's name (``8b``, ``30b_a3b``); else its name up to the task, which tells models without one apart."""
    name = recipe.name.removeprefix("perf:")
    found = _SIZE.search(name)
    return found[1].lower() if found else _TASK.split(name)[0]


def meant(release: Release, text: str, workload: str | None = None, modality: str | None = None) -> list[Recipe]:
    """The usable recipes that a text may mean, by the id of the public model or by words; none where it means nothing."""
    usable = [one for one in catalog.usable(release.name) if modality is None or catalog.modality(one) == modality]
    if workload is not None:
        usable = [one for one in usable if catalog.task(one) == catalog.task_of(workload)]
    model = recipes.public_name(text)
    named = [one for one in usable if one.hf_id is not None and recipes.public_name(one.hf_id) == model]
    if named or "/" in text:
        return named
    words = [_TASKS.get(word, word) for word in re.split(r"[\s/,_-]+", text.lower()) if word not in _EMPTY]
    squeezed = [re.sub(r"[^a-z0-9]", "", word) for word in words]
    found = [one for one in usable if squeezed and all(_says(one, word) for word in squeezed if word)]
    return [one for one in found if one.name.startswith("_".join(squeezed))] or found


def _says(recipe: Recipe, word: str) -> bool:
    """Whether a word stands in a recipe's name or in the public name of its model; a size as a whole."""
    if re.fullmatch(r"\d+[bm]", word):
        return word in re.split(r"[^a-z0-9.]+", f"{recipe.name}-{recipe.hf_id or ''}".lower())
    said = re.sub(r"[^a-z0-9]", "", f"{recipe.name}{(recipe.hf_id or '').rpartition('/')[2]}".lower())
    return word in said or word == (recipe.family or "").replace("_", "")


def settled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Answers in which a recipe given by other words is a recipe, and a family with a size its recipe.

    Raises:
        Refused: the words or the family leave several sizes open, or there is none of that size.
    """
    answers = dict(given)
    draft = Draft(answers)
    name = answers.get("recipe")
    workload = answers.get("workload")
    if name is not None and recipes.find(draft.release.name, name) is None:
        found = meant(draft.release, name, workload, answers.get("modality"))
        if found:
            answers["recipe"] = _one(_of_size(found, answers.get("size")), f"{name}", "--recipe").name
    elif name is None and answers.get("family") is not None:
        answers |= _family(Draft(answers), answers)
    answers.pop("size", None)
    return answers


def _family(draft: Draft, answers: Mapping[str, Any]) -> dict[str, Any]:
    family = catalog.find_family(draft.release, answers["family"])
    if family is None:
        return {}
    found = catalog.matching(draft.release, draft.get("workload"), family, answers.get("modality"))
    if not found:
        return {}
    wanted = _of_size(found, answers.get("size"))
    sizes = _sizes(wanted)
    if len(sizes) > 1:
        raise Refused(
            f"the family {answers['family']} has {len(sizes)} sizes: {', '.join(sizes)}; name one with --size", "family"
        )
    if answers.get("size") is None:
        return {}  # one size: the usual choice among its recipes
    names = {one.name for one in wanted}
    usual = draft.default("recipe")
    return {"recipe": usual.value if usual.known and usual.value in names else wanted[0].name}


def _of_size(found: Sequence[Recipe], size: str | None) -> list[Recipe]:
    if size is None:
        return list(found)
    wanted = size.lower().replace("-", "_").replace(".", "p")
    kept = [one for one in found if size_of(one).replace("-", "_") == wanted]
    kept = kept or [one for one in found if size_of(one).partition("_")[0] == wanted]
    if not kept:
        raise Refused(f"no recipe of size {size}: there are {', '.join(_sizes(found))}", "size")
    return kept


def _sizes(found: Iterable[Recipe]) -> list[str]:
    """The sizes of recipes, small ones first, as people write them."""
    return sorted(
        {size_of(one).replace("p", ".") if size_of(one)[0].isdigit() else size_of(one) for one in found}, key=_parameters
    )


def _parameters(size: str) -> tuple[float, str]:
    found = re.match(r"([\d.]+)([bm])", size)
    return (float(found[1]) * (1000 if found[2] == "b" else 1) if found else float("inf")), size


def _one(found: Sequence[Recipe], text: str, flag: str) -> Recipe:
    """The only one, or the one with the fewest GPUs where all are of one size and one task.

    Raises:
        Refused: they are of several, with the list.
    """
    ordered = sorted(found, key=lambda one: (catalog.model_parallel(one), one.gpus or 0, len(one.name), one.name))
    if len({(size_of(one), catalog.task(one), one.family) for one in ordered}) == 1:
        return ordered[0]
    names = [one.name for one in ordered]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    raise Refused(f"{text} may mean {len(names)} recipes; name one with {flag}: {', '.join(names[:_MOST_SHOWN])}{more}", "recipe")
