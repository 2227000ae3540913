"""The commands printed at the end: for this release, this launcher, this file."""

from __future__ import annotations

import ast
import shlex

import pytest

from mbpack.config.overrides import Override, parse_overrides
from mbpack.wizard.next_steps import launch_program, prepare_program, steps
from mbpack.wizard.plan import Plan
from tests.wizard.test_modes import plan

OFFLINE = "recipe=qwen3_8b_sft_config data=jsonl gpus=16 tp=4 cp=1"


def shells(made: Plan) -> dict[str, str]:
    return {step.what.split(",")[0]: step.shell for step in steps(made, "packing.yaml")}


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6", "0.7"])
def test_packs_are_built_by_the_releases_own_builder(release: str) -> None:
    made = plan(f"bridge={release} {OFFLINE}")
    program = prepare_program(made, "packing.yaml")
    ast.parse(program)
    builder = "GPTSFTDatasetBuilder" if release >= "0.6" else "FinetuningDatasetBuilder"
    assert f"import {builder}\n" in program
    assert f"import {made.draft.recipe.name} as recipe\n" in program
    hugging_face = plan(f"bridge={release} recipe=qwen3_8b_sft_config data=hf gpus=8 cp=1")
    assert ("HFDatasetBuilder" in prepare_program(hugging_face, "x.yaml")) == (release < "0.6")


def test_only_offline_packs_are_prepared() -> None:
    assert "build the packs" in shells(plan(f"bridge=0.6 {OFFLINE}"))
    assert "build the packs" not in shells(plan("bridge=0.6 family=qwen3_vl workload=sft gpus=8"))


def test_a_script_launches_with_the_step_of_the_model() -> None:
    made = plan("bridge=0.6 family=qwen3_vl workload=sft gpus=16")
    program = launch_program(made, "packing.yaml")
    ast.parse(program)
    assert "from megatron.bridge.models.qwen_vl.qwen3_vl_step import forward_step" in program
    assert "finetune(" in program
    assert "--nnodes=2 --nproc_per_node=8" in shells(made)["launch"]
    assert "pretrain(" in launch_program(plan("bridge=0.6 family=llama workload=pretrain gpus=8"), "x.yaml")


@pytest.mark.parametrize("release", ["0.4", "0.6"])
def test_run_recipe_gets_everything_as_arguments(release: str) -> None:
    made = plan(f"bridge={release} {OFFLINE} launcher=run_recipe")
    words = shlex.split(shells(made)["launch"].replace("\\\n", " "))
    assert words[words.index("--recipe") + 1] == made.draft.recipe.name
    pairs = words[words.index("--recipe") + 2 :]
    assert all(isinstance(one, Override) for one in parse_overrides(pairs))
    assert "--config-file" not in words


def test_weights_are_imported_by_the_releases_own_tool() -> None:
    assert "examples/conversion/convert_checkpoints.py" in shells(plan(f"bridge=0.5 {OFFLINE}"))["import the weights"]
    assert "scripts/conversion/convert.sh" in shells(plan(f"bridge=0.6 {OFFLINE}"))["import the weights"]


def test_the_last_step_checks_the_file() -> None:
    assert list(shells(plan(f"bridge=0.6 {OFFLINE}")).values())[-1] == "mbpack doctor packing.yaml --strict"
