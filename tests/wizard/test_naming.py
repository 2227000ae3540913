"""A model is found by the names people use, and its size is never chosen for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.cli.main import run
from mbpack.facts.releases import R06
from mbpack.wizard.naming import meant

BEGUN = "init --bridge 0.6 --gpus 64 --yes --dry-run".split()


@pytest.mark.parametrize(
    ("text", "workload", "recipe"),
    [
        ("Qwen/Qwen3-8B", "lora", "qwen3_8b_peft_1gpu_h100_bf16_config"),
        ("Qwen/Qwen3-8B-Base", "lora", "qwen3_8b_peft_1gpu_h100_bf16_config"),
        ("meta-llama/Llama-3.1-8B-Instruct", "lora", "llama31_8b_peft_1gpu_h100_bf16_config"),
        ("Llama-3.1-8B-Instruct", "lora", "llama31_8b_peft_1gpu_h100_bf16_config"),
        ("meta-llama/Meta-Llama-3-8B", "sft", "llama3_8b_sft_2gpu_h100_bf16_config"),
        ("Qwen/Qwen3-30B-A3B", "lora", "qwen3_30b_a3b_peft_4gpu_h100_bf16_config"),
        ("llama 3.1 8b", "sft", "llama31_8b_sft_2gpu_h100_bf16_config"),
        ("qwen3 8b sft", "sft", "qwen3_8b_sft_4gpu_h100_bf16_config"),
    ],
)
def test_names_that_mean_one_recipe(text: str, workload: str, recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*BEGUN, "--workload", workload, "--recipe", text]) == 0
    assert f"recipe={recipe} " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["Qwen/Qwen9-8B", "nobody/nothing", "zzz"])
def test_names_that_mean_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert meant(R06, text) == []
    assert run([*BEGUN, "--workload", "sft", "--recipe", text]) == 2
    assert "has no recipe" in capsys.readouterr().err


@pytest.mark.parametrize(("family", "sizes"), [("qwen3", "600m, 1.7b, 4b, 8b, 14b, 32b"), ("llama3", "1b, 3b, 8b, 70b, 405b")])
@pytest.mark.parametrize("how", ["--yes", "--no-input"])
def test_no_size_is_chosen_silently(
    family: str, sizes: str, how: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--bridge", "0.6", "--workload", "lora", "--family", family, "--gpus", "64", how]) == 2
    assert capsys.readouterr().err == (
        f"mbpack init: the family {family} has {sizes.count(',') + 1} sizes: {sizes}; name one with --size\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("size", "recipe"), [("8b", "qwen3_8b_peft"), ("1.7b", "qwen3_1p7b_peft"), ("600M", "qwen3_600m_peft")])
def test_a_named_size_is_taken(size: str, recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*BEGUN, "--workload", "lora", "--family", "qwen3", "--size", size]) == 0
    assert f"recipe={recipe}" in capsys.readouterr().out


def test_a_size_that_does_not_exist_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*BEGUN, "--workload", "lora", "--family", "qwen3", "--size", "9b"]) == 2
    assert "there are 600m, 1.7b, 4b" in capsys.readouterr().err


def test_words_that_mean_several_are_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*BEGUN, "--workload", "sft", "--recipe", "8b"]) == 2
    assert "8b may mean" in capsys.readouterr().err
