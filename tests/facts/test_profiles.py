"""The recipes of a release by question are what its recipes say one by one."""

from __future__ import annotations

import pytest

from mbpack.facts import recipes
from mbpack.facts.recipe_sets import RecipeSet, columns_of, packed, table
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import read_data


@pytest.mark.parametrize("release", [release.name for release in RELEASES])
def test_the_file_is_made_of_the_recipes(release: str) -> None:
    assert read_data(f"profiles-{release}.bin") == packed(columns_of(release)), "python tools/profiles.py"


def test_a_set_of_one_says_what_the_recipe_says() -> None:
    held = table("0.6")
    for index in range(0, len(held.names), 40):
        alone, recipe = RecipeSet(held, 1 << index), recipes.find("0.6", held.names[index])
        assert recipe is not None
        assert dict(alone.values) == dict(recipe.values)
        assert set(alone.likely) == recipe.likely
        assert (alone.model_class, alone.gpus, alone.family) == (recipe.model_class, recipe.gpus, recipe.family)
