"""The survey of shipped recipes: topologies are aligned as documented, and no error stands there without its proof."""

from __future__ import annotations

import pytest

from mbpack.facts import recipes
from mbpack.facts.proofs import proof_of
from mbpack.rules.catalogue import BY_NAME

from . import shipped


def test_all_recipes_for_fine_tuning_are_surveyed() -> None:
    assert sum(len(shipped.of_release(release)) for release in shipped.LINES) == 861


def test_a_topology_is_aligned_as_documented() -> None:
    recipe = recipes.find("0.4", "llama3_8b_sft_config")
    assert recipe is not None
    arguments, gpus = shipped.variant(recipe, shipped.VARIANTS["CP 4 x TP 4"], None)
    assert "dataset.packed_sequence_specs.pad_seq_to_mult=16" in arguments
    assert "model.calculate_per_token_loss=true" in arguments
    assert gpus == 16
    assert shipped.variant(recipe, {}, 64) == ([], 64) or recipe.value("train.global_batch_size") % 32


def test_errors_of_the_table_are_known_by_something() -> None:
    table = shipped.README.read_text().partition(shipped.BEGIN)[2].partition(shipped.END)[0]
    head, _, *lines = [line.split(" | ") for line in table.splitlines()]
    assert len(lines) > 30
    for severity, name, consequence, known, *counts in lines:
        code = name.split()[0]
        assert code in BY_NAME
        if severity == "| error" and consequence not in ("rejected", "note"):
            proof = proof_of(code)
            assert proof is not None
            fires = {column.strip(" |")[:3] for column, count in zip(head[4:], counts, strict=True) if count.strip(" |")}
            ran = fires & {release[:3] for release in proof.releases}
            assert known.strip() == (proof.kind if proof.kind != "shown" or ran else "read")


@pytest.mark.conformance
@pytest.mark.parametrize("release", shipped.LINES)
def test_the_table_is_what_the_doctor_says(release: str) -> None:
    said = shipped.survey(release).said
    errors = {one.code for one in said if one.severity == "error"}
    table = shipped.README.read_text().partition(shipped.BEGIN)[2].partition(shipped.END)[0]
    assert all(f"| error | {code} " in table for code in errors)
