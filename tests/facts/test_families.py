"""Families: how they are told, and what packs."""

from __future__ import annotations

import pytest

from mbpack.facts import families, recipes
from mbpack.facts.families import FAMILIES, OK, OPTED_OUT, REFUSED, attention_of, family, family_name, family_of, support
from mbpack.facts.hard_blocks import BLOCKS
from mbpack.facts.modes import MODES
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, RELEASES, Release
from mbpack.facts.schema import classes, schema


def test_names_are_unique_and_found() -> None:
    assert len({f.name for f in FAMILIES}) == len(FAMILIES)
    assert len({m for f in FAMILIES for m in f.modules}) == sum(len(f.modules) for f in FAMILIES)
    assert all(family(f.name) is f for f in FAMILIES)
    with pytest.raises(KeyError):
        family("no such family")


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_recipe_has_a_family_and_every_family_its_recipes(release: Release) -> None:
    listed = [name for f in families.offered(release.name) for name in families.recipes_of(release.name, f.name)]
    assert sorted(listed) == recipes.names(release.name)
    for f in families.offered(release.name):
        first = recipes.find(release.name, families.recipes_of(release.name, f.name)[0])
        assert first is not None
        assert first.family == f.name


@pytest.mark.parametrize(
    ("module", "cls", "hf_id", "expected"),
    [
        ("megatron.bridge.recipes.llama.h100.llama3", "GPTModelProvider", None, "llama"),
        (None, "Qwen3VLMoEModelProvider", None, "qwen3_vl"),
        (None, "Qwen35VLMoEModelProvider", None, "qwen35_vl"),
        (None, "Qwen25ModelProvider7B", None, "qwen2"),
        (None, "Qwen3NextModelProvider80B_A3B", None, "qwen3_next"),
        (None, "Qwen3MoEModelProvider", None, "qwen3_moe"),
        (None, "GLM45VModelProvider", None, "glm_45v"),
        (None, "GLM45AirModelProvider106B", None, "glm45"),
        (None, "Gemma4VLModelProvider", None, "gemma4_vl"),
        (None, "nemotron_omni_provider.NemotronVLModelProvider", None, "nemotron_omni"),
        (None, "GPTModelProvider", "meta-llama/Llama-3.2-1B", "llama"),
        (None, None, "Qwen/Qwen2.5-VL-7B-Instruct", "qwen25_vl"),
        (None, None, "Qwen/Qwen2.5-7B", "qwen2"),
        (None, None, "Qwen/Qwen3-8B", "qwen3"),
        (None, None, "Qwen/Qwen3-30B-A3B", "qwen3_moe"),
        (None, None, "google/gemma-3-1b-pt", "gemma3"),
        (None, None, "google/gemma-3-4b-it", "gemma3_vl"),
        (None, None, "moonshotai/Kimi-K2.5", "kimi_k25_vl"),
        (None, "GPTModelProvider", None, None),
        (None, None, None, None),
        (None, "", "", None),
    ],
)
def test_detection(module: str | None, cls: str | None, hf_id: str | None, expected: str | None) -> None:
    assert family_name(module, cls, hf_id) == expected


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_class_names_of_a_family_exist_in_some_release(release: Release) -> None:
    for cls in classes(release.name, "model"):
        told = family_of(None, cls)
        if told is not None:
            assert cls.startswith(told.classes)


def test_blocks_concern_families() -> None:
    for block in BLOCKS:
        assert any(set(block.modules) & set(f.modules) for f in FAMILIES), block.family


VERDICTS = {  # mode -> family -> 0.3, 0.4, 0.5, 0.6, 0.7, nightly (o: ok, a: abstains, r: refuses)
    "offline": {
        "llama": "oooooo",
        "qwen3": "oooooo",
        "gpt_oss": "oooooo",
        "moonlight": "oooooo",
        "gemma2": "rrrrrr",
        "qwen3_next": "rraaaa",
        "glm45": "aaaaaa",
        "glm5": "rrrooo",
        "deepseek_v4": "rrraaa",
        "deepseek": "aaaaaa",
        "nemotron_h": "oroooo",
        "nemotron_3": "oroooo",
        "qwen25_vl": "rrrrrr",
        "wan": "rrrrrr",
    },
    "in_batch": {
        "llama": "rrrooo",
        "gemma2": "rrrrrr",
        "glm45": "rrraaa",
        "qwen25_vl": "oooooo",
        "qwen3_vl": "aooooo",
        "qwen35_vl": "rraaoo",
        "gemma3_vl": "arrrrr",
        "glm_45v": "aaaaaa",
        "qwen3_omni": "aarrrr",
        "nemotron_vl": "arrrrr",
        "nemotron_omni": "rrraoo",
        "kimi_k25_vl": "aaaaaa",
    },
    "energon": {"qwen3_vl": "rrrroo", "qwen25_vl": "rrrroo", "llama": "rrrrrr", "gemma3_vl": "rrrrrr"},
    "global_batch": {"llama": "rrrroo", "nemotron_h": "rrrrrr", "qwen3_vl": "rrrrrr", "deepseek_v4": "rrrrrr"},
    "none": {"gemma2": "oooooo", "wan": "oooooo"},
}


@pytest.mark.parametrize(("mode", "name"), [(mode, name) for mode, rows in VERDICTS.items() for name in rows])
def test_what_packs(mode: str, name: str) -> None:
    letters = {OK: "o", OPTED_OUT: "a", REFUSED: "r"}
    found = [support(release, name, mode) for release in RELEASES]
    assert "".join(letters[s.verdict] for s in found) == VERDICTS[mode][name]
    assert all(s.reason for s in found if s.verdict != OK)
    works = [r for r, s in zip(RELEASES, found, strict=True) if s.verdict == OK]
    assert {s.since for s in found} == {works[0] if works else None}


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_support_answers_for_everything(release: Release) -> None:
    for f in FAMILIES:
        for mode in MODES:
            assert support(release, f.name, mode).verdict in (OK, OPTED_OUT, REFUSED)


@pytest.mark.parametrize(
    ("release", "name", "mode", "slug"),
    [
        (R06, "gemma2", "offline", "gemma2/packed"),
        (R04, "qwen3_next", "offline", "gdn/packed"),
        (R05, "qwen3_next", "offline", "fam/offline-unsupported"),
        (R04, "nemotron_3", "offline", "ssm/04-state-leak"),
        (R05, "gemma3_vl", "in_batch", "fam/no-inbatch-guard"),
        (R06, "nemotron_vl", "in_batch", "fam/no-inbatch-guard"),
        (R06, "glm_45v", "in_batch", "fam/inbatch-unsupported"),
        (R05, "nemotron_omni", "in_batch", "fam/omni-metadata"),
        (R05, "llama", "in_batch", "batch/gptsft-inbatch-unsupported"),
        (R06, "qwen3_vl", "energon", "nrg/legacy-buffer"),
        (R07, "llama", "energon", "nrg/qwen-only"),
        (R07, "nemotron_h", "global_batch", "gbp/mamba"),
        (R06, "llama", "offline", None),
    ],
)
def test_the_rule_that_reports_it(release: Release, name: str, mode: str, slug: str | None) -> None:
    assert support(release, name, mode).slug == slug


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama31_8b_pretrain_config", "pretrain"),
        ("llama3_8b_sft_config", "sft"),
        ("qwen25_vl_7b_finetune_config", "sft"),
        ("perf:llama3_70b_peft_8gpu_h100_bf16_config", "peft"),
    ],
)
def test_workload(name: str, expected: str) -> None:
    assert families.workload(name) == expected


@pytest.mark.parametrize(
    ("release", "recipe", "facts"),
    [
        (R06, "llama3_8b_sft_config", {"heads": 32, "groups": 8, "head_dim": 128, "layers": 32, "experts": None, "mla": False}),
        (R03, "llama32_1b_sft_config", {"heads": 32, "groups": 8, "head_dim": 64}),
        (R06, "qwen3_30b_a3b_sft_config", {"heads": 32, "groups": 4, "experts": 128}),
        (R06, "gpt_oss_20b_sft_config", {"window": True, "sink": True, "packed_comm_types": ("a2a",)}),
        (R06, "moonlight_16b_sft_8gpu_h100_bf16_config", {"mla": True, "packed_comm_types": ("p2p", "a2a")}),
        (R05, "moonlight_16b_sft_config", {"mla": True, "packed_comm_types": ("p2p", "a2a")}),
        (R06, "gemma2_9b_sft_config", {"packed_comm_types": ()}),
        (R04, "nemotronh_8b_sft_config", {"packed_comm_types": ()}),
        (R05, "nemotronh_8b_sft_config", {"packed_comm_types": ("p2p", "a2a")}),
        (R07, "llama3_8b_sft_config", {"packed_comm_types": ("p2p", "a2a", "all_gather")}),
        (R06, "qwen3_next_80b_a3b_sft_16gpu_h100_bf16_config", {"variant": "gated_delta_net", "head_dim": 256}),
        (R06, "glm52_sft_416gpu_h100_bf16_config", {"variant": "dsa", "packed_comm_types": ("p2p", "a2a")}),
        (R06, "deepseek_v4_flash_sft_config", {"variant": "dsv4_hybrid", "packed_comm_types": ()}),
        (R06, "gpt3_175b_pretrain_config", {"heads": 96, "groups": 96, "head_dim": 128}),
    ],
)
def test_attention_facts(release: Release, recipe: str, facts: dict[str, object]) -> None:
    found = recipes.find(release.name, recipe)
    assert found is not None
    attention = attention_of(release, found)
    assert {name: getattr(attention, name) for name in facts} == facts


def test_attention_of_every_recipe_can_be_told() -> None:
    for name in recipes.names("0.6"):
        recipe = recipes.find("0.6", name)
        assert recipe is not None
        if recipe.unavailable is None:
            attention = attention_of(R06, recipe)
            assert attention.heads is None or attention.heads > 0
            assert attention.head_dim is None or attention.head_dim > 1


def test_hybrids_have_hybrid_classes() -> None:
    assert schema("0.6").fields("HybridModelProvider") is not None
    assert support(NIGHTLY, "nemotron_3", "offline").since == R03
