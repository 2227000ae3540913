"""Families that packing does not work for, and what a launch takes by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mbpack.facts import recipes
from mbpack.facts.hard_blocks import (
    BLOCKS,
    DEEPSEEK_V4,
    DSV4_PACKED_RECIPE,
    GATED_DELTA_NET,
    GEMMA2,
    NEMOTRON_OMNI,
    QWEN3_VL,
    Block,
    Marks,
    belongs,
    blocks,
    is_hybrid_class,
    launcher_step,
    step_name,
)
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, RELEASES, Release
from mbpack.facts.schema import classes, schema

PUBLISHED = (R03, R04, R05, R06, R07)


def models_named(release: Release, marks: Marks) -> Iterator[tuple[str | None, str | None]]:
    """(recipe module, model class) of recipes whose names begin like a family's modules, and every model class."""
    for name in recipes.names(release.name):
        if name.startswith(marks[0]):
            found = recipes.find(release.name, name)
            if found is not None:
                yield found.module, found.model_class
    for cls in classes(release.name, "model"):
        yield None, cls


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.family}-{block.mode}-{block.kind}")
def test_a_block_concerns_a_model_of_its_first_release(block: Block) -> None:
    first = next(release for release in PUBLISHED if release >= block.since)
    assert any(block.concerns(module, cls) for module, cls in models_named(first, (block.modules, block.classes)))


@pytest.mark.parametrize("marks", [GEMMA2, NEMOTRON_OMNI, DEEPSEEK_V4, GATED_DELTA_NET, QWEN3_VL])
def test_family_marks_name_models(marks: Marks) -> None:
    assert any(belongs(marks, module, cls) for module, cls in models_named(R06, marks))


def test_one_block_a_model_and_mode() -> None:
    for release in PUBLISHED:
        models = [(None, cls) for cls in classes(release.name, "model")]
        for module, cls in [*models, *((f"recipes.{name}", None) for block in BLOCKS for name in block.modules)]:
            for mode in ("offline", "in_batch"):
                assert len(list(blocks(release, mode, module, cls))) <= 1, (release, module, cls)


def test_text_and_vision_relatives_are_told_apart() -> None:
    assert not list(blocks(R06, "in_batch", "megatron.bridge.recipes.gemma.h100.gemma3", "Gemma3ModelProvider"))
    assert not list(blocks(R06, "offline", "megatron.bridge.recipes.qwen.h100.qwen3", "GPTModelProvider"))
    assert [b.family for b in blocks(R06, "in_batch", None, "GLM45VModelProvider")] == ["GLM-4.5V"]
    assert not list(blocks(R06, "offline", None, "GLM45VModelProvider"))


def test_hybrids_are_told_by_their_layer_pattern() -> None:
    assert is_hybrid_class(schema("0.6"), "HybridModelProvider")
    assert is_hybrid_class(schema("0.3"), "NemotronHModelProvider8B")
    assert not is_hybrid_class(schema("0.6"), "GPTModelProvider")
    assert not is_hybrid_class(schema("0.6"), "NoSuchClass")


def test_the_packed_deepseek_recipe_exists() -> None:
    for release in ("0.6", "0.7"):
        found = recipes.find(release, DSV4_PACKED_RECIPE)
        assert found is not None
        assert belongs(DEEPSEEK_V4, found.module, found.model_class)


@pytest.mark.parametrize(
    ("release", "recipe", "native", "step"),
    [
        (R05, "qwen3_vl_8b_sft_config", False, "gpt_step"),
        (R06, "qwen3_vl_8b_sft_config", False, "qwen3_vl_step"),
        (R06, "qwen35_vl_9b_sft_config", False, "qwen3_vl_step"),
        (R06, "qwen25_vl_7b_sft_config", False, "vlm_step"),
        (R06, "nemotron_omni_cord_v2_sft_config", False, "nemotron_omni_step"),
        (R06, "llama3_8b_sft_config", False, "gpt_step"),
        (R06, "perf:llama3_70b_sft_32gpu_h100_bf16_config", False, "gpt_step"),
        (R06, "qwen3_vl_8b_peft_energon_config", False, "qwen3_vl_step"),
        (R07, "qwen3_vl_8b_peft_energon_config", False, "vlm_step"),
        (R07, "qwen3_vl_8b_sft_config", True, "vlm_step"),
        (NIGHTLY, "qwen3_vl_8b_sft_config", False, "qwen3_vl_step"),
    ],
)
def test_step_that_the_launcher_takes(release: Release, recipe: str, native: bool, step: str) -> None:
    assert launcher_step(release, recipe, native) == step


def test_step_names_have_aliases() -> None:
    assert step_name("llm_step") == step_name("gpt_step") == "gpt_step"
    assert step_name("DSV4_step") == "deepseek_v4_step"


def test_every_block_lies_within_the_releases() -> None:
    assert all(block.since in RELEASES and block.until in RELEASES and block.since <= block.until for block in BLOCKS)
