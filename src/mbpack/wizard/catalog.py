"""Which recipes a release offers for a job, and what kind of job a recipe is."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping

from mbpack.facts import recipes
from mbpack.facts.classes import DatasetKind, dataset_kind
from mbpack.facts.families import DIFFUSION, offered
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import RELEASES, Release
from mbpack.wizard.answers import LORA, PRETRAIN, SFT, TEXT_MODALITY, VLM

_VLM_KINDS = (DatasetKind.DIRECT_HF, DatasetKind.CONVERSATION, DatasetKind.ENERGON, DatasetKind.MOCK_VLM)
_KNOWN_KINDS = (DatasetKind.GPT_SFT, DatasetKind.PRETRAIN, *_VLM_KINDS)
PEFT = "peft"


def task(recipe: Recipe) -> str:
    """What a recipe trains: ``pretrain``, ``sft`` or ``peft``."""
    kind = dataset_kind(recipe.dataset_class or "")
    if recipe.peft is not None:
        return PEFT
    if kind in (DatasetKind.PRETRAIN, DatasetKind.MOCK_VLM) or "pretrain" in recipe.name:
        return PRETRAIN
    return SFT


def task_of(workload: str) -> str:
    """The task a workload needs: LoRA and DoRA both start from a PEFT recipe."""
    return workload if workload in (PRETRAIN, SFT) else PEFT


def workload_of(recipe: Recipe) -> str:
    """The workload a recipe stands for by itself."""
    found = task(recipe)
    return LORA if found == PEFT else found


def modality(recipe: Recipe) -> str:
    """Text, or images and video as well."""
    return VLM if dataset_kind(recipe.dataset_class or "") in _VLM_KINDS else TEXT_MODALITY


def unusable(recipe: Recipe) -> str | None:
    """Why the wizard cannot start from a recipe, None when it can."""
    if recipe.unavailable is not None:
        return f"{recipe.name} only raises {recipe.unavailable.partition(':')[0]} when it is called"
    if recipe.dataset_class is None:
        return f"{recipe.name} has no dataset of its own, so there is nothing to pack"
    if dataset_kind(recipe.dataset_class) not in _KNOWN_KINDS:
        return f"{recipe.name} reads {recipe.dataset_class}, whose packing these keys do not govern"
    return None


@functools.lru_cache(maxsize=8)
def usable(release_name: str) -> tuple[Recipe, ...]:
    """Every recipe of a release the wizard can start from, performance recipes aside, by name."""
    found = (recipes.find(release_name, name) for name in recipes.names(release_name))
    return tuple(recipe for recipe in found if recipe is not None and not recipe.perf and unusable(recipe) is None)


def families(release_name: str) -> list[str]:
    """Model families that have a usable recipe."""
    return sorted({recipe.family for recipe in usable(release_name) if recipe.family})


def find_family(release: Release, text: str) -> str | None:
    """The family a text means: its name, title or one of its recipe modules, without regard to separators.

    None when the release has no usable recipe of such a family.
    """
    return _spellings(release.name).get(_squeezed(text))


@functools.lru_cache(maxsize=8)
def _spellings(release_name: str) -> Mapping[str, str]:
    """Squeezed name, title and modules of every family of a release -> its name; names win over the rest."""
    here = [one for one in offered(release_name) if one.modality != DIFFUSION]
    found = {_squeezed(module): one.name for one in here for module in one.modules}
    found |= {_squeezed(part): one.name for one in here for part in one.title.split(",")}
    return found | {_squeezed(one.name): one.name for one in here}


def near_families(release: Release, text: str) -> list[str]:
    """Up to three families a misspelled text may mean."""
    known = _spellings(release.name)
    near = difflib.get_close_matches(_squeezed(text), known, n=6, cutoff=0.5)
    return list(dict.fromkeys(known[name] for name in near))[:3]


def releases_with_family(text: str) -> list[str]:
    """Releases that have a usable recipe of a family."""
    return [release.name for release in RELEASES if find_family(release, text)]


def _squeezed(text: str) -> str:
    return "".join(sign for sign in text.lower() if sign.isalnum())


def matching(release: Release, workload: str, of_family: str | None = None, wanted_modality: str | None = None) -> list[Recipe]:
    """Recipes for a workload, those that need the fewest GPUs first."""
    needed = task_of(workload)
    found = [
        recipe
        for recipe in usable(release.name)
        if task(recipe) == needed
        and (of_family is None or recipe.family == of_family)
        and (wanted_modality is None or modality(recipe) == wanted_modality)
    ]
    return sorted(found, key=lambda recipe: (model_parallel(recipe), recipe.gpus or 0, len(recipe.name), recipe.name))


def model_parallel(recipe: Recipe) -> int:
    """GPUs one copy of a recipe's model takes: TP x PP x CP, or what expert parallelism needs where that is more."""
    from mbpack.facts import formulas

    def size(key: str) -> int:
        value = recipe.values.get(f"model.{key}_parallel_size")
        return value if isinstance(value, int) and value > 0 else 1

    dense = formulas.model_parallel_size(size("tensor_model"), size("pipeline_model"), size("context")).value
    experts = formulas.product((size("expert_model"), size("expert_tensor"), size("pipeline_model")))
    return formulas.lcm(dense, experts)


def siblings(release: Release, recipe: Recipe, workload: str) -> list[str]:
    """Names of recipes of the same family for another workload, those with the most similar name first."""
    names = [other.name for other in matching(release, workload, recipe.family)]
    return sorted(names, key=lambda name: -difflib.SequenceMatcher(None, name, recipe.name).ratio())
