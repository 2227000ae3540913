"""Flags of the launch command that switch packing on or off beside the configuration."""

from __future__ import annotations

import pytest

from mbpack.config.context import Given
from mbpack.config.document import Document
from mbpack.config.shell import read_launch
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result

FLAG, PRESET = "run/packed-sequence-flag", "run/dataset-flag-unpacks"


def launched(bridge: str, arguments: str, recipe: str = "llama3_8b_sft_config") -> Result:
    text = f"torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe {recipe} {arguments}\n"
    launch = read_launch(text)
    assert launch is not None
    return judge(Request(flags=Given(bridge), launch=launch, script=Document("train.sh", text, None)))


def outcomes(result: Result, slug: str) -> list[tuple[str, str, str]]:
    assert not result.failed_rules
    return [tuple(finding.outcome) for finding in result.findings if finding.rule.slug == slug]


@pytest.mark.parametrize(
    ("bridge", "arguments", "expected"),
    [
        ("0.3", "--packed_sequence", ("error", "ignored", "load")),
        ("0.4", "--packed_sequence", ("error", "ignored", "load")),
        ("0.5", "--packed_sequence --dataset llm-finetune-preloaded", ("error", "ignored", "load")),
        ("0.5", "--packed_sequence --dataset llm-finetune model.context_parallel_size=2", ("error", "silent", "always")),
        ("0.6", "--packed_sequence", ("error", "rejected", "load")),
        ("0.7", "--packed-sequence", ("error", "rejected", "load")),
    ],
)
def test_packed_sequence_flag(bridge: str, arguments: str, expected: tuple[str, str, str]) -> None:
    assert outcomes(launched(bridge, arguments), FLAG) == [expected]


def test_packed_sequence_flag_packs_a_preset_without_context_parallelism() -> None:
    result = launched("0.5", "--packed_sequence --dataset llm-finetune model.context_parallel_size=1")
    assert outcomes(result, FLAG) == []
    assert outcomes(result, PRESET) == []


def test_no_flag_no_finding() -> None:
    for bridge in ("0.3", "0.5", "0.7"):
        result = launched(bridge, "")
        assert outcomes(result, FLAG) == []
        assert outcomes(result, PRESET) == []


@pytest.mark.parametrize(
    ("bridge", "preset"),
    [("0.4", "llm-finetune"), ("0.5", "llm-finetune-preloaded"), ("0.6", "squad"), ("0.7", "local-jsonl")],
)
def test_a_dataset_preset_unpacks(bridge: str, preset: str) -> None:
    assert outcomes(launched(bridge, f"--dataset {preset}"), PRESET) == [("warning", "ignored", "load")]


@pytest.mark.parametrize(("bridge", "preset"), [("0.5", "vlm-hf"), ("0.5", "llm-pretrain"), ("0.6", "cord-v2"), ("0.6", "mock")])
def test_other_presets_do_not(bridge: str, preset: str) -> None:
    assert outcomes(launched(bridge, f"--dataset {preset}"), PRESET) == []


def test_packing_can_be_switched_on_again() -> None:
    again = "dataset.enable_offline_packing=true +dataset.offline_packing_specs.pad_seq_to_mult=4"
    assert outcomes(launched("0.6", f"--dataset squad {again}"), PRESET) == []


def test_the_flag_is_the_place_of_the_finding() -> None:
    result = launched("0.6", "--dataset squad")
    assert [finding.setting.key for finding in result.findings if finding.rule.slug == PRESET] == ["--dataset"]
