"""Files of programs that wrap Megatron-Bridge, and launches that replace what a recipe holds."""

from __future__ import annotations

import pytest

from mbpack.config.context import Given
from mbpack.config.document import Document, parse
from mbpack.config.shell import read_launch
from mbpack.config.wrapper import read_wrapper
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result

HEAD = "recipe:\n  _target_: megatron.bridge.recipes.llama.llama3_8b_sft_config\n"
RUN = "torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe "


def doctor(text: str, bridge: str = "0.6") -> Result:
    return judge(Request([parse(text)], Given(bridge)))


def launched(command: str, bridge: str | None = "0.6") -> Result:
    script = Document("train.sh", command + "\n", None)
    return judge(Request(flags=Given(bridge), launch=read_launch(command + "\n"), script=script))


def errors(result: Result) -> set[str]:
    return {finding.rule.slug for finding in result.findings if finding.outcome.severity == "error"}


def test_a_job_tells_nodes_and_gpus() -> None:
    context = doctor("run: {env: {nodes: 36, gpus_per_node: 8}}\n" + HEAD).context
    assert context is not None
    assert (context.nodes, context.gpus, context.recipe) == (36, 288, "llama3_8b_sft_config")


def test_a_recipe_by_name_with_its_step() -> None:
    context = doctor("recipe: {name: llama3_8b_sft_config, step_func: vlm_step}\ntrain: {train_iters: 5}\n").context
    assert context is not None
    assert (context.recipe, context.step) == ("llama3_8b_sft_config", "vlm_step")


def test_arguments_of_a_recipe_leave_what_follows_from_them_unknown() -> None:
    alone = "run: {env: {nodes: 3, gpus_per_node: 8}}\n" + HEAD + "train: {global_batch_size: 5}\n"
    assert "gbs/eval-divisible" in errors(doctor(alone))
    with_arguments = alone.replace("sft_config\n", "sft_config\n  tensor_parallelism: 3\n")
    result = doctor(with_arguments)
    assert "gbs/eval-divisible" not in errors(result)
    assert any("argument tensor_parallelism" in entry.reason for entry in result.not_checked)


def test_an_argument_that_is_not_known_may_change_anything_but_what_the_file_says() -> None:
    text = HEAD + "  my_switch: true\ntrain: {micro_batch_size: 2}\ndataset: {enable_offline_packing: true}\n"
    result = doctor(text)
    assert "batch/offline-mbs-one" in errors(result)
    assert any("argument my_switch" in entry.reason for entry in result.not_checked)


def test_a_reference_into_a_wrapper_s_section_is_no_error() -> None:
    text = "run: {env: {container: x}}\n" + HEAD + "logger: {wandb_project: '${run.wandb.project}'}\n"
    assert "cfg/unresolved-reference" not in errors(doctor(text))
    assert "cfg/unresolved-reference" in errors(doctor(text.replace("run.wandb", "logger.wandb")))


@pytest.mark.parametrize(
    ("command", "release"),
    [
        (RUN + "llama3_8b_sft_config --mode sft --dataset squad train.micro_batch_size=4 train.global_batch_size=32", "0.6"),
        (RUN + "llama3_8b_sft_config --mode sft --dataset local-jsonl dataset.dataset_root=/data/x", "0.6"),
        (
            RUN + "qwen3_vl_8b_sft_config --step_func qwen3_vl_step --dataset vlm-preloaded dataset.train_data_path=/d/t.json",
            "0.5",
        ),
        (RUN + "qwen35_vl_35b_a3b_pretrain_mock_config --dataset energon dataset.path=/d dataset.do_test=false", "0.7"),
        (RUN + "qwen35_vl_35b_a3b_pretrain_mock_config --dataset energon dataset.task_encoder.hf_processor_path=/p", "0.7"),
    ],
)
def test_a_dataset_that_is_replaced_is_not_judged_as_the_recipe_s(command: str, release: str) -> None:
    result = launched(command, release)
    assert not errors(result)
    assert any("replaces the recipe's dataset" in entry.reason for entry in result.not_checked)


def test_an_environment_variable_with_a_null_default_is_there_to_be_set() -> None:
    text = "# mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script\n"
    for default in ("null", ""):
        result = doctor(text + f"checkpoint: {{pretrained_checkpoint: '${{oc.env:BASE,{default}}}'}}\n")
        assert "peft/pretrained-checkpoint" not in errors(result)
        assert any(entry.needs == ("environment",) for entry in result.not_checked)


def test_keys_of_a_class_of_one_s_own_are_warned_about() -> None:
    request = Request([parse("model: {routing_type: x}\ndataset: {shuffle_size: 5}\n")], Given("0.6", "my_own_sft_config"))
    assert not errors(judge(request))


CONVERTED = """\
_target_: megatron.bridge.training.config.ConfigContainer
checkpoint: {_target_: megatron.bridge.training.config.CheckpointConfig, save: /x, save_optim: false}
dataset: null
ddp: null
dist: null
logger: {_target_: megatron.bridge.training.config.LoggerConfig}
model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, num_layers: 2, hidden_size: 64}
scheduler: null
train: null
"""


def test_a_checkpoint_with_weights_only_has_nothing_to_launch() -> None:
    (said,) = judge(Request([parse(CONVERTED)])).findings
    assert (said.outcome.severity, said.fix) == ("info", None)
    assert "weights only" in said.message


def test_a_whole_file_with_one_empty_section_is_judged() -> None:
    text = CONVERTED.replace("dist: null", "dist: {_target_: megatron.bridge.training.config.DistributedInitConfig}")
    assert "cfg/section-null" in errors(judge(Request([parse(text)])))


def test_a_higher_file_changes_the_job() -> None:
    below = parse("recipe: {name: llama3_8b_sft_config}\nrun: {env: {nodes: 96, gpus_per_node: 8}}")
    above = parse("run: {env: {nodes: 36}}")
    roots = [document.root for document in (below, above) if document.root is not None]
    found = read_wrapper(roots)
    assert (found.recipe, found.nodes, found.gpus) == ("llama3_8b_sft_config", 36, 288)


PACKED = """\
run: {data: packs:latest}
recipe: {_target_: megatron.bridge.recipes.nemotronh.nemotron_3_super_sft_config}
dataset:
  my_packed_sft_dir: /packs
  packed_sequence_specs: {packed_sequence_size: 4096}
model: {context_parallel_size: 4}
"""


@pytest.mark.parametrize("bridge", ["0.5", "0.6", "0.7"])
def test_a_dataset_that_the_wrapper_makes_is_the_wrapper_s_to_read(bridge: str) -> None:
    result = doctor(PACKED, bridge)
    assert not errors(result) & {"cfg/renamed-key", "cfg/yaml-unknown-key", "align/pad-seq-to-mult"}
    assert [finding for finding in result.findings if finding.rule.slug == "cfg/wrapper-key"]
    assert result.context.clouded["dataset"] == "the wrapper makes the dataset of dataset.my_packed_sft_dir"


@pytest.mark.parametrize("bridge", ["0.6", "0.7"])
def test_without_such_a_key_a_renamed_one_is_an_error_below_a_wrapper_too(bridge: str) -> None:
    assert "cfg/renamed-key" in errors(doctor(PACKED.replace("  my_packed_sft_dir: /packs\n", ""), bridge))


def test_specs_over_a_recipe_that_nobody_knows_are_no_warning() -> None:
    text = PACKED.replace("nemotron_3_super_sft_config", "of_my_own_sft_config").replace("  my_packed_sft_dir: /packs\n", "")
    (found,) = [finding for finding in doctor(text, "0.5").findings if finding.rule.slug == "cfg/nested-under-none"]
    assert found.outcome.severity == "info"
