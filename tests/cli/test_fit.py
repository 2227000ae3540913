"""`mbpack fit`: what people and machines are told, and what happens with bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbpack.memory.terms import TERMS
from tests.cli.conftest import BROKEN, RIGHT, Call

LONG = ("qwen3_30b_a3b_sft_8gpu_h100_bf16_config", "--bridge", "0.6", "--gpus", "16", "--seq-length", "131072")


def _json(mbpack: Call, *arguments: str) -> dict[str, Any]:
    code, out, err = mbpack("fit", *arguments, "--json")
    assert (code in (0, 1), err) == (True, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_long_row_does_not_fit_and_the_way_out_is_shown(mbpack: Call) -> None:
    code, out, err = mbpack("fit", *LONG)
    assert (code, err) == (1, "")
    assert "16 x h100-80gb, 79.1 GiB usable each" in out
    assert "DOES NOT FIT" in out
    assert "memory ends at the second" in out
    assert "full recompute" in out
    assert "recompute core_attn: ADDS memory" in out
    assert "TP 1 PP 1 CP 4 EP 8 DP 4, full recompute" in out
    assert "routing: one rank may get more tokens" in out


def test_every_candidate_fits_and_passes_the_doctor(mbpack: Call, folder: Path) -> None:
    data = _json(mbpack, *LONG)
    assert data["candidates"]
    for candidate in data["candidates"]:
        assert candidate["verdict"] == "fits"
        assert candidate["range_gib"]["high"] <= data["gpu"]["usable_gib"]
        arguments = [f"{key}={json.dumps(value)}" for key, value in candidate["settings"].items()]
        _, out, _ = mbpack("doctor", "--recipe", LONG[0], "--bridge", "0.6", "--gpus", "16", *arguments)
        assert "[rejected" not in out, out
        again = _json(mbpack, LONG[0], "--bridge", "0.6", "--gpus", "16", "--no-search", *arguments)
        assert again["allocated_gib"] == pytest.approx(candidate["allocated_gib"], abs=0.001)


def test_json_names_every_formula_and_adds_up(mbpack: Call) -> None:
    data = _json(mbpack, *LONG, "--max-length")
    assert data["schema_version"] == 1
    assert sum(row["bytes"] for row in data["rows"]) / 2**30 == pytest.approx(data["allocated_gib"], abs=0.01)
    assert all(row["formula"] and row["proof"] for row in data["rows"])
    assert {row["row"] for row in data["rows"]} <= set(TERMS)
    assert [row["verified"] for row in data["rows"] if row["row"] == "backward workspace"] == [False]
    assert [stage["logged"] for stage in data["stages"]] == [False, True]
    low, likely, high = (data["range_gib"][end] for end in ("low", "likely", "high"))
    assert low < data["allocated_gib"] < likely < high
    assert 2048 < data["longest_row_tokens"] < 131072


def test_the_longest_row_fits_and_the_next_does_not(mbpack: Call) -> None:
    base = ("llama31_8b_sft_config", "--bridge", "0.6", "--gpus", "8", "--no-search")
    longest = _json(mbpack, *base, "--max-length")["longest_row_tokens"]
    assert _json(mbpack, *base, "--seq-length", str(longest))["verdict"] == "fits"
    assert _json(mbpack, *base, "--seq-length", str(longest + 256))["verdict"] != "fits"


def test_a_file_over_a_recipe_and_arguments_count(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    one = _json(mbpack, "a.yaml", "--no-search")
    assert one["setup"]["length"] == 8192
    assert (one["setup"]["tensor_parallel"], one["setup"]["context_parallel"], one["setup"]["gpus"]) == (4, 2, 16)
    two = _json(mbpack, "a.yaml", "--no-search", "model.recompute_granularity=full", "model.recompute_method=uniform")
    assert two["allocated_gib"] < one["allocated_gib"]


OWN = (
    "# mbpack: bridge=0.6\n"
    "model: {num_layers: 12, hidden_size: 512, num_attention_heads: 8, ffn_hidden_size: 2048, vocab_size: 50304,\n"
    "  seq_length: 1024, tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, gated_linear_unit: false}\n"
    "train: {micro_batch_size: 4, global_batch_size: 32}\n"
)


def test_a_file_without_a_recipe_is_estimated_and_its_assumptions_are_said(mbpack: Call, folder: Path) -> None:
    (folder / "own.yaml").write_text(OWN)
    data = _json(mbpack, "own.yaml", "--gpus", "8")
    assert data["setup"]["tensor_parallel"] == 2
    assert "model.context_parallel_size is not known: 1 assumed" in data["assumptions"]
    assert "values that nobody gave are assumed" in data["range_reasons"]
    assert data["candidates"][0]["settings"]["model.tensor_model_parallel_size"] == 1
    assert None not in data["candidates"][0]["settings"].values()
    code, _, err = mbpack("fit", "own.yaml", "--gpus", "6")
    assert (code, "6 GPUs are no multiple of 4" in err) == (2, True)


def test_a_file_that_says_too_little_is_one_line(mbpack: Call, folder: Path) -> None:
    (folder / "own.yaml").write_text("# mbpack: bridge=0.6\nmodel: {num_layers: 12}\ntrain: {micro_batch_size: 1}\n")
    code, out, err = mbpack("fit", "own.yaml")
    assert (code, out) == (2, "")
    assert "model.hidden_size" in err
    assert "--hf-config" in err


def test_what_the_doctor_refuses_is_said(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    _, out, _ = mbpack("fit", "a.yaml", "--no-search")
    assert "the doctor refuses this configuration" in out


def test_a_row_explains_itself(mbpack: Call) -> None:
    code, out, _ = mbpack("fit", "llama31_8b_sft_config", "--bridge", "0.6", "--explain", "log-sum-exp")
    assert code == 0
    assert "4 T heads / t" in out
    assert "measured on the CPU" in out
    code, _, err = mbpack("fit", "llama31_8b_sft_config", "--bridge", "0.6", "--explain", "nonsense")
    assert code == 2
    assert "no row and no setting is called so" in err


def test_a_setting_explains_what_it_changes(mbpack: Call) -> None:
    code, out, _ = mbpack("fit", "llama31_8b_sft_config", "--bridge", "0.6", "--explain", "full recompute")
    assert code == 0
    assert 'model.recompute_granularity="full"' in out
    assert "-" in out
    assert "MLP: output of fc1" in out
    assert mbpack("fit", "llama31_8b_sft_config", "--bridge", "0.6", "--explain", "cross_entropy_fusion_impl").code == 0


def test_a_model_of_ones_own_by_its_config_json(mbpack: Call, folder: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32}
    config |= {"num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    data = _json(mbpack, "llama31_8b_sft_config", "--bridge", "0.6", "--hf-config", "config.json", "--no-search")
    assert data["model"]["parameters"] == 1_235_814_400


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "a JSON object is expected"),
        ('{"model_type": "rwkv"}', "is not one whose layers are modelled"),
        ('{"model_type": "llama", "hidden_size": "many"}', "num_attention_heads is missing"),
        ('{"model_type": "llama", "num_attention_heads": 1.5}', "num_attention_heads is no size"),
    ],
)
def test_a_config_json_that_cannot_be_used(mbpack: Call, folder: Path, content: str, words: str) -> None:
    (folder / "config.json").write_text(content)
    code, out, err = mbpack("fit", "llama31_8b_sft_config", "--bridge", "0.6", "--hf-config", "config.json")
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a file, a launch script, or a recipe"),
        (("nosuch.yaml",), "no such file"),
        (("nosuch_config",), "has no recipe nosuch_config"),
        (("llama31_8b_sft_config", "--gpu", "tpu"), "not one of a100-40gb"),
        (("llama31_8b_sft_config", "--gpus", "0"), "a number of GPUs"),
        (("llama31_8b_sft_config", "--gpus", "3", "--bridge", "0.6"), "3 GPUs are no multiple of 2"),
        (("llama31_8b_sft_config", "--seq-length", "-1"), "a number of tokens"),
        (("deepseek_v4_flash_sft_config", "--bridge", "0.6"), "not modelled"),
        (("wan_1_3b_pretrain_8gpu_h100_bf16_config", "--bridge", "0.6"), "not modelled"),
        (("llama31_8b_sft_config", "--bridge", "0.6", "model.tensor_model_parallel_size=0"), "parallel size below 1"),
        (("llama31_8b_sft_config", "--bridge", "0.6", "model.tensor_model_parallel_size=two"), "no whole number"),
        (("llama31_8b_sft_config", "--bridge", "9.9"), "9.9"),
    ],
)
def test_bad_input_is_one_line(mbpack: Call, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = mbpack("fit", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_the_table_of_a_terminal_shows_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    from mbpack.cli.fit_table import show
    from mbpack.config.context import Given
    from mbpack.engine.doctor import Request
    from mbpack.engine.fitting import Wanted, fit
    from mbpack.report.fit import breakdown

    found = fit(Request(flags=Given(bridge="0.6", recipe="llama31_8b_sft_config")), Wanted(search=False))
    show(found, 100)
    shown = capsys.readouterr().out
    assert all(piece.title[:20] in shown for piece in breakdown(found))
    assert "GiB" in shown
