"""What stands in the written file: key names of the release, values with their reasons, and the KEY=VALUE form of the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.config.document import parse
from mbpack.config.overrides import Override, parse_overrides
from mbpack.wizard.draft import Refused
from mbpack.wizard.key_value import argument_value, arguments
from mbpack.wizard.next_steps import steps
from tests.wizard.test_modes import plan


def tree(text: str) -> dict[str, Any]:
    """The plain values of a file."""
    document = parse(text)
    assert document.root is not None
    assert document.problems == []
    found = document.root.plain
    assert isinstance(found, dict)
    return found


def at(text: str, path: str) -> Any:
    value: Any = tree(text)
    for part in path.split("."):
        value = value[part]
    return value


def line_of(text: str, key: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(f"{key}:"))


JOB = "data=jsonl gpus=16 tp=4 cp=2 seq_length=8192"


def test_the_pad_multiple_with_its_arithmetic() -> None:
    text = plan(f"bridge=0.6 recipe=qwen3_8b_sft_config {JOB}").text
    assert at(text, "dataset.offline_packing_specs.pad_seq_to_mult") == 8
    assert line_of(text, "pad_seq_to_mult").endswith("# lcm(2*CP = 4, CP*TP = 8)")
    assert line_of(text, "global_batch_size").endswith("4 microbatches = GBS 8 / (MBS 1 x DP 2)")


@pytest.mark.parametrize(
    ("release", "specs", "target"),
    [
        ("0.3", "packed_sequence_specs", "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs"),
        ("0.5", "packed_sequence_specs", "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs"),
        ("0.6", "offline_packing_specs", "megatron.bridge.data.packing.config.PackedSequenceSpecs"),
    ],
)
def test_key_names_of_the_release(release: str, specs: str, target: str) -> None:
    dataset = tree(plan(f"bridge={release} recipe=qwen3_8b_sft_config data=jsonl gpus=8 cp=1").text)["dataset"]
    assert dataset[specs]["_target_"] == target
    assert ("enable_offline_packing" in dataset) == (release == "0.6")
    assert ("num_tokenizer_workers" in dataset[specs]) == (release == "0.6")


def test_local_files_clear_the_recipes_own_source() -> None:
    new = tree(plan(f"bridge=0.6 recipe=qwen3_8b_sft_config {JOB}").text)["dataset"]
    assert (new["dataset_root"], new["hf_dataset"], new["hf_validation_proportion"]) == ("data/sft", None, None)
    old = tree(plan(f"bridge=0.5 recipe=qwen3_8b_sft_config {JOB}").text)["dataset"]
    assert old["_target_"] == "megatron.bridge.training.config.FinetuningDatasetConfig"


def test_the_recipes_own_dataset_is_left_alone() -> None:
    dataset = tree(plan("bridge=0.6 recipe=qwen3_8b_sft_config data=hf gpus=8").text)["dataset"]
    assert not {"hf_dataset", "dataset_root", "preprocessing"} & set(dataset)


def test_another_hugging_face_dataset() -> None:
    text = plan("bridge=0.6 recipe=qwen3_8b_sft_config data=hf gpus=8 data_path=gsm8k").text
    assert at(text, "dataset.hf_dataset.dataset_name") == "gsm8k"
    text = plan("bridge=0.6 recipe=qwen3_8b_sft_config data=hf gpus=8 data_path=me/my-set").text
    assert at(text, "dataset.hf_dataset.path_or_dataset") == "me/my-set"


@pytest.mark.parametrize(("release", "key"), [("0.6", "preprocessing"), ("0.5", "dataset_kwargs")])
def test_chat_rows_in_the_words_of_the_release(release: str, key: str) -> None:
    dataset = tree(plan(f"bridge={release} recipe=qwen3_8b_sft_config data=chat gpus=8 cp=1 tp=1").text)["dataset"]
    assert key in dataset
    assert ("chat" in dataset.get("dataset_kwargs", {})) == (release == "0.5")


def test_context_parallelism_brings_the_loss_settings() -> None:
    with_cp = tree(plan("bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 tp=1 cp=2").text)
    assert with_cp["model"]["calculate_per_token_loss"] is True
    assert with_cp["ddp"]["average_in_collective"] is False
    without = tree(plan("bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 tp=1 cp=1").text)
    assert "calculate_per_token_loss" not in without["model"]
    pretraining = tree(plan("bridge=0.6 family=qwen3 workload=pretrain gpus=8 tp=1 cp=2").text)
    assert "ddp" not in pretraining


def test_fixed_width_only_where_something_needs_it() -> None:
    plain = plan("bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 tp=1 cp=1")
    assert "dataset_kwargs" not in tree(plain.text)["dataset"]
    narrow = plan("bridge=0.6 recipe=qwen3_8b_sft_config gpus=6 tp=1 cp=3 seq_length=8184")
    assert at(narrow.text, "dataset.dataset_kwargs.pad_to_max_length") is True
    assert "which 6 does not divide" in narrow.text
    hybridep = plan("bridge=0.6 recipe=moonlight_16b_sft_8gpu_h100_bf16_tp1_config gpus=8")
    assert at(hybridep.text, "dataset.dataset_kwargs.pad_to_max_length") is True


@pytest.mark.parametrize(
    ("release", "recipe", "model"),
    [
        ("0.4", "llama3_8b_sft_config", {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"]}),
        ("0.6", "llama3_8b_sft_config", {"cuda_graph_impl": "full_iteration"}),
    ],
)
def test_full_iteration_graphs(release: str, recipe: str, model: dict[str, object]) -> None:
    text = plan(f"bridge={release} recipe={recipe} gpus=8 pp=1 cp=1 cuda_graphs=full_iteration packing=offline").text
    assert {key: at(text, f"model.{key}") for key in model} == model
    assert at(text, "rerun_state_machine.check_for_nan_in_loss") is False
    assert at(text, "model.use_te_rng_tracker") is True
    specs = "offline_packing_specs" if release == "0.6" else "packed_sequence_specs"
    assert at(text, f"dataset.{specs}.pad_cu_seqlens") is True


def test_mlp_graphs_use_the_key_of_the_recipe() -> None:
    text = plan("bridge=0.6 recipe=llama3_8b_sft_config gpus=8 cuda_graphs=mlp").text
    assert at(text, "model.cuda_graph_scope") == ["mlp"]
    assert "pad_cu_seqlens" not in text


def test_a_pipeline_layout_of_another_size_is_cleared() -> None:
    text = plan("bridge=0.6 recipe=llama31_405b_sft_128gpu_h100_bf16_config gpus=128 tp=8 pp=2 vpp=none").text
    assert at(text, "model.account_for_loss_in_pipeline_split") is False


def test_window_attention_exchanges_by_a2a() -> None:
    text = plan("bridge=0.6 family=gpt_oss workload=sft gpus=8 tp=1 pp=1 ep=8 cp=2").text
    assert at(text, "model.cp_comm_type") == "a2a" or "cp_comm_type" not in text
    assert "CPL111" in text  # needs a cuDNN that no file can promise


def test_packing_off_needs_both_halves() -> None:
    dataset = tree(plan("bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 packing=none").text)["dataset"]
    assert (dataset["enable_offline_packing"], dataset["offline_packing_specs"]) == (False, None)
    dataset = tree(plan("bridge=0.5 recipe=qwen3_8b_sft_config gpus=8 packing=none").text)["dataset"]
    assert dataset["packed_sequence_specs"] is None


def test_in_batch_packing_of_images_belongs_to_the_step_that_packs() -> None:
    made = plan("bridge=0.6 recipe=qwen3_vl_8b_sft_2gpu_h100_bf16_config gpus=8")
    assert made.job.step == "qwen3_vl_step"
    assert tree(made.text)["train"]["micro_batch_size"] >= 2
    assert "in_batch_packing_pad_to_multiple_of" not in made.text  # the start-up overwrites it
    other = plan("bridge=0.6 family=qwen25_vl workload=sft gpus=8")
    assert other.job.step == "vlm_step"


def test_native_energon_packing() -> None:
    text = plan("bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8").text
    assert at(text, "dataset.micro_batch_size") == at(text, "train.micro_batch_size") == 1
    assert at(text, "dataset.packing_buffer_size") == 80
    assert at(text, "model.calculate_per_token_loss") is True


def test_global_batch_packing_has_room_for_the_longest_sample() -> None:
    text = plan("bridge=0.7 recipe=qwen3_8b_sft_config gpus=16 tp=2 cp=4 pp=1 packing=global_batch").text
    model = tree(text)["model"]
    assert model["max_seqlen_per_dp_cp_rank"] * 4 >= model["seq_length"]
    assert at(text, "dataset.dataloader_type") == "cyclic"


@pytest.mark.parametrize(
    ("answers", "call"),
    [
        ("bridge=0.6 launcher=script", "process_config_with_overrides(recipe(peft_scheme='dora'), 'a.yaml')"),
        ("bridge=0.6 launcher=run_recipe", "--mode dora"),
        ("bridge=0.5 launcher=run_recipe", "--peft_scheme dora"),
    ],
)
def test_dora_is_chosen_where_the_recipe_is_called(answers: str, call: str) -> None:
    made = plan(f"{answers} family=qwen3 workload=dora gpus=8 checkpoint=/ckpt/base")
    assert "peft" not in tree(made.text)  # an override does not exchange the recipe's adapter
    assert at(made.text, "checkpoint.pretrained_checkpoint") == "/ckpt/base"
    assert any(call in step.shell for step in steps(made, "a.yaml"))


def test_a_recipe_that_makes_lora_only_offers_no_dora() -> None:
    with pytest.raises(Refused, match="makes LoRA and nothing else"):
        plan("bridge=0.6 recipe=qwen35_vl_9b_peft_1gpu_h100_bf16_config workload=dora gpus=8 checkpoint=/ckpt/base")


def test_the_directive_names_everything_the_doctor_needs() -> None:
    made = plan("bridge=0.6 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=run_recipe")
    assert made.text.splitlines()[0] == (
        "# mbpack: bridge=0.6 recipe=qwen3_vl_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=run_recipe step=qwen3_vl_step"
    )


PAIRS = [
    f"bridge=0.6 recipe=qwen3_8b_sft_config {JOB}",
    f"bridge=0.5 recipe=qwen3_8b_sft_config {JOB}",
    "bridge=0.6 recipe=qwen3_8b_peft_1gpu_h100_bf16_config data=chat gpus=8 cuda_graphs=mlp",
    "bridge=0.7 recipe=qwen3_vl_8b_sft_2gpu_h100_bf16_config data=energon gpus=8",
    "bridge=0.6 recipe=qwen3_vl_8b_sft_2gpu_h100_bf16_config data=chat gpus=8",
    "bridge=0.6 family=llama workload=pretrain gpus=8 cp=2 data_path=/data/corpus_text_document",
]


@pytest.mark.parametrize("answers", PAIRS)
def test_key_value_arguments_say_what_the_file_says(answers: str) -> None:
    made = plan(answers)
    found: dict[str, Any] = {}
    for one in parse_overrides(arguments(made)):
        assert isinstance(one, Override), one
        assert one.op in ("set", "force")
        node = found
        for part in one.key[:-1]:
            node = node.setdefault(part, {})
        node[one.key[-1]] = one.value
    assert found == tree(made.text)


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=20).filter(
    lambda text: "${" not in text and text.strip() and text != "???"
)


@given(st.one_of(TEXTS, st.lists(TEXTS, max_size=2), st.dictionaries(st.just("path"), TEXTS, max_size=1)))
def test_values_survive_the_override_grammar(value: object) -> None:
    (found,) = parse_overrides([f"++dataset.x={argument_value(value)}"])
    assert isinstance(found, Override), found
    assert found.value == value
