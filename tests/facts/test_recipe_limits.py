"""What holds of all recipes and schemas of a release, and lets rules ask less."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mbpack.facts import hard_blocks, recipes
from mbpack.facts.keys import SPECS
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import R05, R06, R07, RELEASES, Release

OLD = [release for release in RELEASES if release <= R05]


def all_of(release: Release) -> Iterator[Recipe]:
    for name in recipes.names(release.name):
        recipe = recipes.find(release.name, name)
        assert recipe is not None
        yield recipe


@pytest.mark.parametrize("release", OLD, ids=str)
def test_recipes_with_an_energon_dataset_say_how_long_rows_are(release: Release) -> None:
    for recipe in all_of(release):
        if "Energon" in (recipe.dataset_class or ""):
            assert isinstance(recipe.values["dataset.seq_length"], int)


@pytest.mark.parametrize("release", OLD, ids=str)
def test_no_recipe_has_packs_of_no_tokens(release: Release) -> None:
    assert all(recipe.values.get(f"{SPECS}.packed_sequence_size") != 0 for recipe in all_of(release))


def test_the_one_packed_recipe_of_deepseek_v4_came_with_0_6() -> None:
    having = {release.name for release in RELEASES if hard_blocks.DSV4_PACKED_RECIPE in recipes.names(release.name)}
    assert having == {release.name for release in RELEASES if release >= R06}


def test_qwen_recipes_with_an_energon_dataset_have_their_step_by_name() -> None:
    for recipe in all_of(R07):
        if recipe.name.startswith("qwen") and "Energon" in (recipe.dataset_class or ""):
            packs = "long_context" in recipe.name  # these pack natively, which decides before the name does
            assert hard_blocks.launcher_step(R07, recipe.name, native_energon=packs) == "vlm_step"
