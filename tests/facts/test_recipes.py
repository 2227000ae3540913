"""What recipes return: names, values, canonical paths."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mbpack.facts import schema as facts
from mbpack.facts.recipes import Recipe, find, modules, names, search, suggest
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import Opaque, schema

NAMES = [release.name for release in RELEASES]
SUMMARY = Path(__file__).parent.parent / "data" / "recipes" / "summary.tsv"
#: columns of the recorded table -> canonical paths
PATHS = {
    "packed_sequence_size": "dataset.offline_packing_specs.packed_sequence_size",
    "pad_seq_to_mult": "dataset.offline_packing_specs.pad_seq_to_mult",
    "in_batch": "dataset.enable_in_batch_packing",
    "dataset_seq_length": "dataset.seq_length",
    "model_seq_length": "model.seq_length",
    "micro_batch_size": "train.micro_batch_size",
    "global_batch_size": "train.global_batch_size",
    "train_iters": "train.train_iters",
    "average_in_collective": "ddp.average_in_collective",
}


def _recorded() -> list[dict[str, str]]:
    lines = SUMMARY.read_text().splitlines()[1:]
    head = lines[0].split("\t")
    return [dict(zip(head, line.split("\t"), strict=True)) for line in lines[1:] if line]


def get(release: str, name: str) -> Recipe:
    found = find(release, name)
    assert found is not None
    return found


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6"])
def test_values_equal_the_recorded_ones(release: str) -> None:
    rows = [row for row in _recorded() if row["release"] == release]
    assert len(rows) > 30
    for row in rows:
        recipe = get(release, row["recipe"])
        assert (recipe.dataset_class, recipe.model_class) == (row["dataset_class"], row["model_class"])
        for column, text in row.items():
            if column in ("release", "recipe", "dataset_class", "model_class"):
                continue
            path = PATHS.get(column, f"model.{column}")
            if column in ("packed_sequence_size", "pad_seq_to_mult") and not recipe.holds("dataset.offline_packing_specs"):
                assert text == "null"
                continue
            value = recipe.value(path)
            assert (value or None if column == "in_batch" else value) == json.loads(text) or (
                column == "in_batch" and not json.loads(text)
            ), (row["recipe"], column)


@pytest.mark.parametrize("release", NAMES)
def test_every_value_belongs_to_a_field(release: str) -> None:
    known = schema(release)
    renamed = {"validation": "train"} if release == "0.3" else {}
    for name in names(release):
        recipe = get(release, name)
        assert recipe.name == name
        if recipe.unavailable:
            assert not recipe.values
            continue
        assert recipe.module
        assert recipe.dataset_class is None or known.fields(recipe.dataset_class) is not None
        assert recipe.model_class is None or known.kind(recipe.model_class) == "model"
        assert recipe.guessed <= recipe.likely <= set(recipe.values)
        for path, value in recipe.values.items():
            section = path.partition(".")[0]
            assert renamed.get(section, section) in known.sections
            if path.endswith("._target_"):
                assert known.class_of(str(value)) is not None, (name, path, value)


@pytest.mark.parametrize("release", NAMES)
def test_settings_of_the_model_are_fields_of_its_class(release: str) -> None:
    known = schema(release)
    for name in names(release)[::3]:
        recipe = get(release, name)
        fields = known.fields(recipe.model_class or "") or {}
        for path in recipe.values:
            owner, _, field = path.rpartition(".")
            if owner == "model" and fields:
                assert field in fields, (name, path)


def test_old_names_lead_to_the_current_recipe() -> None:
    recipe = get("0.6", "llama3_8b_sft_config")
    assert recipe.name == "llama3_8b_sft_2gpu_h100_bf16_config"
    assert recipe.gpus == 2
    assert get("0.5", "llama3_8b_sft_config").gpus is None
    assert get("nightly", "llama3_8b_sft_config").release == "nightly"


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5"])
def test_a_recipe_whose_name_ends_with_its_nodes(release: str) -> None:
    fewer, usual = get(release, "deepseek_v3_pretrain_config_32nodes"), get(release, "deepseek_v3_pretrain_config")
    assert (fewer.value("model.pipeline_model_parallel_size"), fewer.value("model.expert_model_parallel_size")) == (8, 32)
    assert (usual.value("model.pipeline_model_parallel_size"), usual.value("model.expert_model_parallel_size")) == (16, 64)


@pytest.mark.parametrize("release", ["0.6", "0.7", "nightly"])
def test_that_name_is_an_old_one_later(release: str) -> None:
    assert get(release, "deepseek_v3_pretrain_config_32nodes").name == "deepseek_v3_pretrain_256gpu_h100_bf16_32nodes_config"


@pytest.mark.parametrize("name", ["", "llama", "nope_config", ".aliases", ".paths", "a\tb", "../x"])
def test_an_unknown_name_is_none(name: str) -> None:
    assert find("0.6", name) is None


def test_old_keys_have_their_canonical_names() -> None:
    old = get("0.3", "llama3_8b_sft_config")
    assert old.values["dataset.offline_packing_specs.packed_sequence_size"] == 4096
    assert old.values["validation.eval_iters"] == 32
    assert "dataset.hf_rewrite" in old.values
    assert not any("packed_sequence_specs" in path or path.startswith("train.eval") for path in old.values)
    assert old.holds("dataset.offline_packing_specs")
    vlm = get("0.5", "qwen3_vl_8b_sft_config")
    assert vlm.values["dataset.enable_in_batch_packing"] is True


def test_an_object_is_there_whole_and_field_by_field() -> None:
    recipe = get("0.6", "llama3_8b_sft_config")
    path = "dataset.preprocessing"
    whole = recipe.values[path]
    assert whole["_target_"] == "megatron.bridge.data.sft_processing.PromptCompletionSFTPreprocessingConfig"
    assert whole["separator"] == recipe.values[f"{path}.separator"] == " "
    assert recipe.holds(path)
    assert not recipe.holds("peft")
    lora = get("0.6", "llama3_8b_peft_1gpu_h100_bf16_config")
    assert lora.peft == "LoRA"
    assert lora.values["peft"]["_target_"] == "megatron.bridge.peft.lora.LoRA"


def test_values_fall_back_to_the_class_default() -> None:
    recipe = get("0.6", "llama3_8b_sft_config")
    assert "model.context_parallel_size" not in recipe.values
    assert recipe.value("model.context_parallel_size") == 1
    assert recipe.value("dataset.offline_packing_specs.pad_seq_to_mult") == 1
    assert recipe.value("ddp.average_in_collective") is False
    assert recipe.value("peft.dim") is None
    assert recipe.value("model.no_such_field") is None
    lora = get("0.6", "llama3_8b_peft_1gpu_h100_bf16_config")
    assert lora.value("peft.lora_A_init_method") == "xavier"


def test_settings_of_a_nested_model_are_found() -> None:
    recipe = get("0.7", "llama3_8b_pretrain_config")
    assert recipe.model_class == "BridgeGPTModelConfig"
    assert "model.transformer.num_layers" in recipe.values
    assert recipe.value("model.num_layers") == 32
    assert recipe.value("model.seq_length") == 8192


def test_what_a_model_card_tells_is_marked() -> None:
    recipe = get("0.6", "llama3_8b_sft_config")
    assert "model.num_attention_heads" in recipe.likely
    assert "model.num_attention_heads" not in recipe.guessed
    assert "model.tensor_model_parallel_size" not in recipe.likely
    assert recipe.complete
    assert not get("0.7", "llama3_8b_sft_config").complete


def test_an_unavailable_recipe_says_why() -> None:
    recipe = get("0.6", "qwen3_next_80b_a3b_peft_1gpu_h100_bf16_config")
    assert recipe.unavailable is not None
    assert recipe.unavailable.startswith("NotImplementedError")


def test_performance_recipes_that_share_a_name() -> None:
    perf, plain = get("0.6", "perf:llama3_70b_sft_32gpu_h100_bf16_config"), get("0.6", "llama3_70b_sft_32gpu_h100_bf16_config")
    assert perf.perf
    assert not plain.perf
    assert perf.values["train.global_batch_size"] != plain.values["train.global_batch_size"]


def test_values_that_plain_data_cannot_express() -> None:
    values = get("0.6", "llama3_8b_sft_config").values
    assert values["checkpoint.save"] == Opaque("<absolute path>")
    assert values["model.activation_func"] == Opaque("<callable silu>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("llama3_8b_sft_confg", "llama3_8b_sft_2gpu_h100_bf16_config"),
        ("qwen3_vl_8b_sft_2gpu_h100_bf16", "qwen3_vl_8b_sft_2gpu_h100_bf16_config"),
        ("moonlight_sft", "moonlight_16b_sft_8gpu_h100_bf16_config"),
    ],
)
def test_suggestions(text: str, expected: str) -> None:
    found = suggest("0.6", text)
    assert expected in found
    assert len(found) <= 3
    assert all(find("0.6", name) is not None for name in found)


def test_no_suggestion_for_nonsense() -> None:
    assert suggest("0.6", "zzzzzzzz") == []


def test_search_wants_every_word() -> None:
    found = search("0.6", "QWEN3 8b sft")
    assert found[0] == "qwen3_8b_sft_4gpu_h100_bf16_config"
    assert all("qwen3" in n and "8b" in n and "sft" in n for n in found)
    assert search("0.6", "llama gemma") == []
    assert len(search("0.6", "")) == len(names("0.6"))


@pytest.mark.parametrize("release", NAMES)
def test_the_module_index_is_complete(release: str) -> None:
    assert sorted(name for group in modules(release).values() for name in group) == names(release)
    assert all(get(release, group[0]).module == module for module, group in modules(release).items())


def test_the_files_stay_small() -> None:
    for release in ("0.3", "0.4", "0.5", "0.6", "0.7"):
        assert os.path.getsize(os.path.join(facts.DATA, f"recipes-{release}.tsv")) < 350_000


def test_recipes_newer_than_the_release() -> None:
    """What was read of 0.7's later recipes; the one with dynamic context parallelism is of the main branch alone."""
    long = get("0.7", "qwen35_text_35b_a3b_sft_long_context_16gpu_gb200_fp8mx_config")
    assert long.values["dataset.offline_packing_specs.pad_seq_to_mult"] == 16
    assert (long.values["model.context_parallel_size"], long.values["model.seq_length"]) == (8, 131072)
    assert get("0.7", "glm52_gb200_sft_config").name == "glm52_sft_192gpu_gb200_bf16_config"
    name = "qwen35_text_35b_a3b_sft_8gpu_gb200_bf16_dynamic_cp_config"
    assert find("0.7", name) is None
    assert name not in names("0.7")
    assert name in names("nightly")
    dynamic = get("nightly", name)
    assert dynamic.values["model.dynamic_context_parallel"] is True
    assert dynamic.values["model.max_seqlen_per_dp_cp_rank"] == 8192
    assert dynamic.values["dataset.fold_alignment_padding"] is True
