"""What an agent with the skill must be able to say about sequence packing, each fact from mbpack's answers alone.

The facts are those that the field's own skill is evaluated on (Megatron-Bridge, skills/nemo-mbridge-perf-sequence-packing/evals).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Answer, Call

RECIPES = Path(__file__).parents[2] / "recipes"
HEAD = "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
OFFLINE = "dataset: {enable_offline_packing: true, seq_length: 8192, offline_packing_specs: {packed_sequence_size: 8192}}\n"
START = ("init", "--bridge", "0.6", "--data", "jsonl", "--data-path", "data/sft", "--yes", "--output", "-", "--format", "json")


class Agent:
    """Asks, and reads nothing but JSON."""

    def __init__(self, call: Call, folder: Path) -> None:
        self.call, self.folder = call, folder

    def json(self, *argv: str) -> Any:
        answer: Answer = self.call(*argv)
        assert answer.code in (0, 1), answer.err
        return json.loads(answer.out)

    def written(self, *flags: str) -> Any:
        return self.json(*START, *flags)

    def found(self, text: str, *flags: str) -> dict[str, Any]:
        (self.folder / "asked.yaml").write_text(text)
        (file,) = self.json("doctor", "asked.yaml", "--format", "json", *flags)["files"]
        return {finding["code"]: finding for finding in file["findings"]}

    def page(self, *words: str) -> Any:
        return self.json("explain", *words, "--format", "json")


@pytest.fixture
def agent(mbpack: Call, folder: Path) -> Agent:
    return Agent(mbpack, folder)


def test_offline_packing_has_a_switch_a_size_a_multiple_and_rows_of_one(agent: Agent) -> None:
    told = agent.written("--recipe", "llama3_8b_sft_config", "--gpus", "16", "--tp", "4", "--sp", "--cp", "2")
    settings = told["settings"]
    assert (told["mode"], settings["dataset.enable_offline_packing"]) == ("offline", True)
    assert settings["dataset.offline_packing_specs.packed_sequence_size"] == settings["model.seq_length"]
    assert settings["dataset.offline_packing_specs.pad_seq_to_mult"] == 8
    assert settings["train.micro_batch_size"] == 1
    assert "PackedSequenceSpecs" in agent.page("packed_sequence_size")["text"]
    refused = agent.found(HEAD + OFFLINE + "model: {seq_length: 8192}\ntrain: {micro_batch_size: 2}\n")["BAT101"]
    assert (refused["consequence"], refused["when"]) == ("rejected", "validate")


def test_packing_in_the_batch_wants_more_rows_than_one(agent: Agent) -> None:
    text = (RECIPES / "vlm-in-batch.yaml").read_text(encoding="utf-8")
    assert "enable_in_batch_packing: true" in text
    assert not {code for code, one in agent.found(text).items() if one["severity"] == "error"}
    alone = agent.found(
        text.replace("micro_batch_size: 4", "micro_batch_size: 1").replace("micro_batch_size: 2", "micro_batch_size: 1")
    )
    assert alone["BAT105"]["severity"] == "error"


def test_8k_comes_first_and_equal_tokens_are_named(agent: Agent) -> None:
    told = agent.written("--recipe", "llama3_8b_sft_config", "--gpus", "8", "--gbs", "8")
    assert told["answers"]["seq_length"] == 8192
    (slots,) = (one for one in told["derived"] if one["name"] == "token slots a step")
    assert slots["value"] == "65,536"
    assert "2048 x 32" in slots["because"]
    assert "4096 x 16" in slots["because"]
    assert "65,536" in agent.page("token_slots", "--seq-length", "8192", "--gbs", "8")["calculated"][0]


@pytest.mark.parametrize("batch", [6, 2])
def test_the_global_batch_is_a_multiple_of_the_replicas_and_no_smaller(agent: Agent, batch: int) -> None:
    text = HEAD + f"model: {{tensor_model_parallel_size: 4}}\ntrain: {{micro_batch_size: 1, global_batch_size: {batch}}}\n"
    wrong = [one for one in agent.found(text).values() if one["consequence"] == "rejected"]
    assert any("global_batch_size" in (one["key"] or "") for one in wrong)
    assert not any(one["consequence"] == "rejected" for one in agent.found(text.replace(f": {batch}}}", ": 8}")).values())


@pytest.mark.parametrize(
    ("sizes", "multiple"),
    [
        (("--cp", "2"), 4),
        (("--cp", "2", "--tp", "4", "--sp"), 8),
        (("--tp", "4", "--sp"), 4),
        (("--cp", "3", "--tp", "4", "--sp"), 12),
    ],
)
def test_the_multiple_follows_from_the_topology(agent: Agent, sizes: tuple[str, ...], multiple: int) -> None:
    assert agent.page("pad_seq_to_mult", *sizes)["calculated"][0].startswith(f"{multiple} = ")


def test_the_multiple_is_the_same_for_adapters(agent: Agent) -> None:
    flags = ("--gpus", "16", "--tp", "4", "--sp", "--cp", "2")
    key = "dataset.offline_packing_specs.pad_seq_to_mult"
    adapters = agent.written("--recipe", "qwen3_8b_peft_1gpu_h100_bf16_config", *flags)
    assert adapters["answers"]["workload"] == "lora"
    assert adapters["settings"][key] == agent.written("--recipe", "llama3_8b_sft_config", *flags)["settings"][key] == 8


def test_another_topology_needs_packs_that_are_built_anew(agent: Agent) -> None:
    text = (
        HEAD + OFFLINE.replace("8192}}", "8192, pad_seq_to_mult: 2}}") + "model: {seq_length: 8192, context_parallel_size: 2}\n"
    )
    found = agent.found(text)["ALN101"]
    assert found["consequence"] == "silent"
    assert "rebuild the packed data" in found["fix"]["title"]


def test_fixed_width_is_another_matter_than_the_multiple(agent: Agent) -> None:
    def wide(*flags: str) -> bool:
        return "pad_to_max_length" in str(agent.written(*flags)["settings"])

    assert not wide("--recipe", "llama3_8b_sft_config", "--gpus", "8", "--cp", "2")
    assert wide("--recipe", "llama3_8b_sft_config", "--gpus", "8", "--cuda-graphs", "full_iteration")
    assert "HybridEP" in (RECIPES / "moe-hybridep-8k.yaml").read_text(encoding="utf-8")


def test_graphs_need_boundaries_of_one_length_and_the_metadata_file(agent: Agent) -> None:
    text = (RECIPES / "text-sft-graphs.yaml").read_text(encoding="utf-8")
    assert "pad_cu_seqlens: true" in text
    found = agent.found("\n".join(line for line in text.splitlines() if "pad_cu_seqlens" not in line) + "\n")["GRA102"]
    assert "pad_cu_seqlens: true" in found["message"]
    assert any("metadata" in rule["summary"] for rule in agent.json("list", "rules", "metadata", "--format", "json")["entries"])
    assert "metadata" in agent.page("pad_cu_seqlens")["text"]


def test_fine_tuning_with_context_parallelism_needs_two_settings(agent: Agent) -> None:
    text = HEAD + "model: {context_parallel_size: 2, calculate_per_token_loss: false}\nddp: {average_in_collective: true}\n"
    edits = {edit["key"]: edit["value"] for one in agent.found(text).values() if one["fix"] for edit in one["fix"]["edits"]}
    assert edits["model.calculate_per_token_loss"] is True
    assert edits["ddp.average_in_collective"] is False


def test_the_split_of_packed_rows_takes_one_row(agent: Agent) -> None:
    text = (
        HEAD
        + OFFLINE
        + "model: {seq_length: 8192, context_parallel_size: 2}\ntrain: {micro_batch_size: 2, global_batch_size: 16}\n"
    )
    assert "micro_batch_size" in agent.found(text)["STP103"]["message"]


@pytest.mark.parametrize(("family", "said"), [("qwen3_next", "not offered"), ("glm45", "not offered"), ("qwen35_vl", "refused")])
def test_families_that_opt_out(agent: Agent, family: str, said: str) -> None:
    offline = agent.page(family)["text"].partition("offline packing")[2].partition("in-batch packing")[0]
    assert said in offline
    assert "works" not in offline


def test_multi_token_prediction_is_not_supported_with_packs(agent: Agent) -> None:
    assert "unsupported" in agent.page("MTP101")["rule"]["text"]
