"""Fields, defaults, classes and import paths of every release."""

from __future__ import annotations

import os

import pytest

from mbpack.facts import schema as facts
from mbpack.facts.keys import RENAMES, specs_target
from mbpack.facts.releases import R03, R05, R06, R07, RELEASES
from mbpack.facts.schema import NO_DEFAULT, Opaque, classes, classes_with, releases_with, schema

NAMES = [release.name for release in RELEASES]
HARVESTED = {"0.3": "0.3.1", "0.4": "0.4.2", "0.5": "0.5.1", "0.6": "0.6.2"}
KINDS = ("section", "model", "dataset", "peft", "nested")


@pytest.mark.parametrize("name", NAMES)
def test_every_class_is_found_by_its_own_import_path(name: str) -> None:
    known = schema(name)
    for kind in KINDS:
        found = classes(name, kind)
        assert found
        for cls in found:
            path = known.path(cls)
            assert path is not None
            assert path.startswith("megatron.")
            assert known.class_of(path) == cls
            assert known.kind(cls) == kind
            assert known.fields(cls) is not None
            assert cls.rpartition(".")[2] == path.rpartition(".")[2]


@pytest.mark.parametrize("name", NAMES)
def test_sections_have_classes_that_exist(name: str) -> None:
    known = schema(name)
    assert {"train", "model", "optimizer", "dataset", "checkpoint", "peft"} <= set(known.sections)
    assert ("validation" in known.sections) == (name != "0.3")
    assert ("env_vars" in known.sections) == (name in ("0.6", "0.7", "nightly"))
    for section in known.sections:
        cls = known.section_class(section)
        if cls is not None:
            assert known.kind(cls) == "section"
    for section in ("model", "dataset", "peft"):
        assert known.section_class(section) is None
    assert known.section_class("train") == "TrainingConfig"
    assert known.section_class("comm_overlap") == "CommOverlapConfig"


@pytest.mark.parametrize(("name", "version"), HARVESTED.items())
def test_the_package_version_is_stamped_in(name: str, version: str) -> None:
    assert schema(name).packages["megatron-bridge"] == version


def test_a_release_without_data_is_an_error() -> None:
    with pytest.raises(KeyError):
        schema("0.2")


@pytest.mark.parametrize(
    ("name", "cls", "field", "type_", "default"),
    [
        ("0.3", "TrainingConfig", "micro_batch_size", "int|null", None),
        ("0.3", "TrainingConfig", "eval_iters", "int", 100),
        ("0.4", "ValidationConfig", "eval_iters", "int|null", 100),
        ("0.6", "TrainingConfig", "num_epochs", "float|null", None),
        ("0.3", "PackedSequenceSpecs", "packed_sequence_size", "int", -1),
        ("0.3", "PackedSequenceSpecs", "pad_seq_to_mult", "int|null", 1),
        ("0.6", "PackedSequenceSpecs", "max_single_sequence_length", "int|null", None),
        ("0.5", "HFDatasetConfig", "rewrite", "bool", True),
        ("0.6", "GPTSFTDatasetConfig", "hf_rewrite", "bool", False),
        ("0.6", "GPTSFTDatasetConfig", "enable_offline_packing", "bool", False),
        ("0.6", "DirectHFSFTDatasetConfig", "pad_to_multiple_of", "int", 128),
        ("0.7", "GPTSFTDatasetConfig", "enable_in_batch_packing", "bool", False),
        ("0.7", "GPTSFTDatasetConfig", "enable_global_batch_packing", "bool", False),
        ("0.6", "GPTModelProvider", "context_parallel_size", "int", 1),
        ("0.6", "Qwen3VLModelProvider", "context_parallel_size", "int", 1),
        ("0.6", "DistributedDataParallelConfig", "average_in_collective", "bool", False),
        ("0.6", "RNGConfig", "te_rng_tracker", "bool", False),
        ("0.6", "RerunStateMachineConfig", "check_for_nan_in_loss", "bool", True),
        ("0.6", "LoRA", "dim", "int", 32),
    ],
)
def test_fields_and_defaults(name: str, cls: str, field: str, type_: str, default: object) -> None:
    fields = schema(name).fields(cls)
    assert fields is not None
    assert (fields[field].type, fields[field].default) == (type_, default)


def test_a_required_field_and_an_object_have_no_plain_default() -> None:
    known = schema("0.6")
    energon = known.fields("EnergonDatasetConfig")
    model = known.fields("GPTModelProvider")
    assert energon is not None
    assert model is not None
    assert energon["seq_length"].default is NO_DEFAULT
    assert model["activation_func"].default == Opaque("<callable gelu>")
    training = known.fields("TrainingConfig")
    assert training is not None
    assert not training["_train_iters_from_num_epochs"].init
    assert model["seq_length"].init


def test_a_class_takes_over_from_the_one_it_resembles_only_what_it_has() -> None:
    known = schema("0.6")
    base, vision, nested = (known.fields(c) for c in ("GPTModelProvider", "Qwen3VLMoEModelProvider", "GPTModelConfig"))
    assert base is not None
    assert vision is not None
    assert nested is not None
    assert "image_token_id" in vision
    assert "image_token_id" not in base
    assert vision["freeze_language_model"].default is True
    assert "tensor_model_parallel_size" not in nested
    assert known.nested_transformer("GPTModelConfig")
    assert known.transformer_class("GPTModelConfig") == "TransformerConfig"
    assert not known.nested_transformer("GPTModelProvider")
    assert known.transformer_class("GPTModelProvider") is None


@pytest.mark.parametrize("cls", ["", ".enums", "NoSuchConfig", "GPTModelProvider\t"])
def test_an_unknown_class_is_none(cls: str) -> None:
    known = schema("0.6")
    assert known.fields(cls) is None
    assert known.path(cls) is None
    assert known.kind(cls) is None
    assert known.attributes(cls) == frozenset()


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_the_specs_target_is_the_import_path(release: object) -> None:
    name = str(release)
    target = specs_target(next(r for r in RELEASES if r.name == name))
    assert schema(name).class_of(target) == "PackedSequenceSpecs"


def test_an_import_path_of_another_release_is_unknown() -> None:
    old, new = specs_target(R05), specs_target(R06)
    assert schema("0.5").class_of(new) is None
    assert schema("0.6").class_of(old) is None
    assert schema("0.6").class_of("megatron.bridge.data.packing.PackedSequenceSpecs") == "PackedSequenceSpecs"
    assert schema("0.6").importable(old) is False
    assert schema("0.5").importable(old) is True
    assert schema("0.6").importable("torch.bfloat16") is None
    assert schema("0.6").importable("megatron.bridge.training.gpt_step.forward_step") is None
    assert schema("0.6").importable("megatron.bridge.peft.lora.LoRA.transform") is None
    assert schema("0.7").importable(old) is None, "the modules of 0.7 are not known"


def test_nightly_is_0_7_with_the_documented_additions() -> None:
    before, after = schema("0.7"), schema("nightly")
    for cls, field in (
        ("GPTModelProvider", "dynamic_context_parallel"),
        ("Qwen3VLModelProvider", "dynamic_context_parallel"),
        ("GPTSFTDatasetConfig", "fold_alignment_padding"),
        ("GPTDatasetConfig", "enable_global_batch_packing"),
    ):
        assert field not in (before.fields(cls) or {})
        assert field in (after.fields(cls) or {})
    assert "fold_alignment_padding" in after.any_dataset_fields()
    assert "fold_alignment_padding" not in before.any_dataset_fields()
    assert "dynamic_context_parallel" in after.any_model_fields()


@pytest.mark.parametrize("name", NAMES)
def test_unions_hold_every_field_of_their_classes(name: str) -> None:
    known = schema(name)
    for kind, union in (("model", known.any_model_fields()), ("dataset", known.any_dataset_fields())):
        for cls in classes(name, kind):
            assert set(known.fields(cls) or {}) <= set(union)


def test_which_releases_know_a_key() -> None:
    assert releases_with("dataset", "packed_sequence_specs") == ["0.3", "0.4", "0.5"]
    assert releases_with("dataset", "offline_packing_specs") == ["0.6", "0.7", "nightly"]
    assert releases_with("dist", "lazy_init") == ["0.3"]
    assert releases_with("train", "num_epochs") == ["0.6", "0.7", "nightly"]
    assert releases_with("model", "cuda_graph_modules") == ["0.5", "0.6", "0.7", "nightly"]
    assert releases_with("train", "no_such_key") == []
    assert releases_with("no_such_section", "x") == []
    assert "EnergonDatasetConfig" in classes_with("0.6", "dataset", "packing_buffer_size")
    assert "GPTSFTDatasetConfig" not in classes_with("0.6", "dataset", "packing_buffer_size")


@pytest.mark.parametrize("rename", RENAMES, ids=lambda r: r.old)
def test_renamed_keys_exist_where_they_are_said_to(rename: object) -> None:
    old, new, since = (getattr(rename, name) for name in ("old", "new", "since"))
    section, _, key = new.partition(".")
    knows = releases_with(section, key)
    assert [r.name for r in RELEASES if r >= since] == knows
    section, _, key = old.partition(".")
    assert all(r.name in releases_with(section, key) for r in RELEASES if r < since and r >= R03)


def test_names_that_are_no_fields_but_can_be_set() -> None:
    assert "seq_length" in schema("0.5").attributes("GPTDatasetConfig")
    assert "seq_length" not in (schema("0.5").fields("GPTDatasetConfig") or {})
    assert "provide" in schema("0.6").attributes("GPTModelProvider")


def test_mixed_precision_names() -> None:
    known = schema("0.6")
    values = known.mixed_precision("bf16_mixed")
    assert values is not None
    assert values["bf16"] is True
    assert values["grad_reduce_in_fp32"] is True
    assert values["params_dtype"] == "torch.bfloat16"
    assert values["fp8"] is None
    assert known.mixed_precision("no_such_precision") is None
    fp8 = known.mixed_precision("bf16_with_mxfp8_mixed")
    assert fp8 is not None
    assert (fp8["fp8"], fp8["fp8_recipe"]) == ("e4m3", "mxfp8")
    assert "bf16_mixed" in known.mixed_precision_names


@pytest.mark.parametrize("name", ["0.3", "0.6", "0.7"])
def test_enumerations_have_their_values(name: str) -> None:
    enums = schema(name).enums
    assert enums["AttnBackend"] == {"flash": 1, "fused": 2, "unfused": 3, "local": 4, "auto": 5}
    assert "attn" in enums["CudaGraphScope"]


def test_two_classes_of_one_name_are_told_apart() -> None:
    known = schema("0.6")
    both = {
        known.class_of(f"megatron.bridge.models.{module}.NemotronVLModelProvider")
        for module in ("nemotron_vl.nemotron_vl_provider", "nemotron_omni.nemotron_omni_provider")
    }
    assert len(both) == 2
    assert "NemotronVLModelProvider" in both


@pytest.mark.parametrize("name", NAMES)
def test_one_class_costs_a_few_lines(name: str) -> None:
    """Reading a class parses its own line and those it builds on, not the file."""
    assert os.path.getsize(os.path.join(facts.DATA, f"schema-{'0.7' if name == 'nightly' else name}.tsv")) < 280_000
    known = facts.Schema(name)
    known.fields("GPTSFTDatasetConfig" if name in ("0.6", "0.7", "nightly") else "FinetuningDatasetConfig")
    known.fields("TrainingConfig")
    assert len(known._raw) <= 6


def test_the_newest_published_release_is_harvested() -> None:
    assert schema("0.6").packages
    assert not schema("0.7").packages
    assert R07.name in NAMES
