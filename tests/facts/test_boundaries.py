"""Values just beside the limits of the facts."""

from __future__ import annotations

import pytest

from mbpack.facts import formulas, recipes
from mbpack.facts.families import attention_of
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.order import stations
from mbpack.facts.releases import R03, R04, R05, R06, R07, RELEASES
from mbpack.facts.widths import near_round_width


def test_sequence_parallel_over_one_rank_needs_no_multiple() -> None:
    assert formulas.pad_multiple(1, 1, sp=True) == formulas.pad_multiple(1, 1, sp=False)
    assert "TP" not in formulas.pad_multiple(1, 2, sp=True).because
    assert "TP" in formulas.pad_multiple(2, 2, sp=True).because


@pytest.mark.parametrize(
    ("width", "meant"), [(16584, 16384), (16200, 16384), (129, 128), (128, None), (127, None), (32_900, 32_768)]
)
def test_widths_near_a_power_of_two(width: int, meant: int | None) -> None:
    assert near_round_width(width) == meant


def test_each_release_has_its_own_order_of_checks() -> None:
    assert stations(R03) == stations(R04)
    assert len({tuple(stations(release)) for release in (R04, R05, R06, R07)}) == 4
    assert "nrg/mbs@train" in set(stations(R06)) ^ set(stations(R07))


def test_a_latent_attention_is_told_by_the_value_where_the_class_does_not_say_so() -> None:
    recipe = recipes.find("0.6", "kimi_k25_vl_sft_512gpu_h100_bf16_config")
    assert recipe is not None
    assert not (recipe.model_class or "").startswith("MLA")
    assert attention_of(R06, recipe).packed_comm_types == ("p2p", "a2a")


@pytest.mark.parametrize("release", ["0.6", "0.7"])
def test_specs_and_the_switch_go_together_in_recipes(release: str) -> None:
    for name in recipes.names(release):
        recipe = recipes.find(release, name)
        assert recipe is not None
        assert recipe.holds(SPECS) == bool(recipe.values.get(OFFLINE_SWITCH))
        assert not recipe.holds(SPECS) or recipe.values[f"{SPECS}.packed_sequence_size"] > 0


def test_no_recipe_trains_for_one_iteration() -> None:
    for release in RELEASES:
        for name in recipes.names(release.name):
            recipe = recipes.find(release.name, name)
            assert recipe is not None
            assert recipe.value("train.train_iters") != 1
