"""Which step function a job trains with."""

from __future__ import annotations

from mbpack.facts.hard_blocks import DSV4_PACKED_RECIPE, DSV4_STEP, launcher_step
from mbpack.facts.modes import ENERGON, Mode
from mbpack.facts.releases import R04, R06, R07
from mbpack.wizard.draft import Draft

_SINCE = {"qwen3_vl_step": R04}


def step_function(draft: Draft, mode: Mode) -> str:
    """The step function of the recipe's modality.

    ``run_recipe.py`` finds it by itself from 0.6 on; before, it takes ``gpt_step`` unless it is told, so the name table
    of 0.6 is used for all releases. Native Energon packing and steps that a release lacks need ``vlm_step``.
    """
    release = draft.release
    if draft.recipe.name == DSV4_PACKED_RECIPE:
        return DSV4_STEP
    step = launcher_step(max(release, R06), draft.recipe.name, release >= R07 and mode is ENERGON)
    return "vlm_step" if release < _SINCE.get(step, release) else step
