"""`mbpack init` from the command line: flags, files, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.cli.main import run
from mbpack.wizard.judge import judge

JOB = "init --bridge 0.6 --recipe qwen3_8b_peft_1gpu_h100_bf16_config --data chat --gpus 16 --tp 4 --cp 2".split()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_yes_writes_a_file_the_doctor_finds_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*JOB, "--yes"]) == 0
    told = capsys.readouterr().out
    for part in (
        "Recommended: offline packing",
        "8 = lcm(2*CP = 4, CP*TP = 8)",
        "packing.yaml (new)",
        "Wrote packing.yaml.",
        "Next",
    ):
        assert part in told
    result = judge(Path("packing.yaml").read_text())
    assert result.verdict == "accepted"
    assert run(["doctor", "packing.yaml", "--strict"]) == 0


def test_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*JOB, "--yes", "--dry-run", "--save-answers", "a.yaml"]) == 0
    assert "Dry run: nothing was written." in capsys.readouterr().out
    assert list(Path().iterdir()) == []


def test_an_existing_file_needs_force(capsys: pytest.CaptureFixture[str]) -> None:
    Path("packing.yaml").write_text("x: 1\n")
    assert run([*JOB, "--yes"]) == 2
    printed = capsys.readouterr()
    assert "-x: 1" in printed.out
    assert (
        printed.err == "mbpack init: packing.yaml exists and differs (see above): --force overwrites it, --output names another\n"
    )
    assert Path("packing.yaml").read_text() == "x: 1\n"
    assert run([*JOB, "--yes", "--force"]) == 0
    assert run([*JOB, "--yes"]) == 0
    assert "already exactly this" in capsys.readouterr().out


def test_answers_are_recorded_and_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*JOB, "--yes", "--save-answers", "answers.yaml"]) == 0
    first = Path("packing.yaml").read_text()
    assert run(["init", "--answers", "answers.yaml", "--no-input", "--output", "again.yaml"]) == 0
    assert Path("again.yaml").read_text() == first
    assert run(["init", "--answers", "answers.yaml", "--gpus", "32", "--no-input", "--output", "more.yaml"]) == 0
    assert "gpus=32" in Path("more.yaml").read_text()


def test_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*JOB, "--yes", "--output", "-"]) == 0
    assert judge(capsys.readouterr().out).verdict == "accepted"
    assert list(Path().iterdir()) == []


def test_overrides_for_launchers_that_take_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*JOB, "--yes", "--as", "overrides"]) == 0
    words = capsys.readouterr().out.replace("\\\n", " ").split()
    assert "model.tensor_model_parallel_size=4" in words
    assert any(
        word.startswith("++dataset.offline_packing_specs={_target_:") or "offline_packing_specs=" in word for word in words
    )
    assert list(Path().iterdir()) == []
    assert run([*JOB, "--yes", "--as", "overrides", "--output", "args.txt"]) == 0
    assert "model.context_parallel_size=2" in Path("args.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["init"], "--workload, --recipe or --family, --data or --data-path, --gpus are missing"),
        (["init", "--no-input", *JOB[1:]], "--data-path is missing"),
        (["init", "--yes"], "no recipe and no model family was named: use --recipe or --family"),
        (["init", "--yes", "--recipe", "qwen3_8b_sft_confg"], "has no recipe qwen3_8b_sft_confg; did you mean"),
        (["init", "--yes", "--family", "qwen33"], "has no recipe of the family qwen33; did you mean"),
        (["init", "--yes", "--bridge", "0.2", "--family", "qwen3"], "older than what mbpack knows"),
        ([*JOB, "--yes", "--packing", "in_batch"], "in-batch packing does not fit: GPT-SFT in-batch packing starts with 0.7"),
        ([*JOB, "--yes", "--packing", "ofline"], "--packing: 'ofline' is not one of auto, offline"),
        ([*JOB, "--yes", "--gbs", "7"], "global batch 7 is not a multiple of MBS 1 x DP 2 = 2; nearest: 6 or 8"),
        ([*JOB, "--yes", "--gbs", "8", "--token-slots", "65536"], "--gbs and --token-slots say the same thing"),
        ([*JOB, "--yes", "--seq-length", "5000.5"], "--seq-length: '5000.5' is no whole number"),
        ([*JOB, "--yes", "--cuda-graphs", "attn"], "attention cannot be captured"),
        ([*JOB, "--yes", "--as", "toml"], "write yaml, overrides or sbatch"),
        ([*JOB, "--yes", "--answers", "none.yaml"], "none.yaml: no such answers file"),
        ([*JOB, "--yes", "--output", "no/such/folder.yaml"], "cannot be written"),
        ([*JOB, "--yes", "--no-such-flag"], ""),
    ],
)
def test_unusable_input_is_one_line_and_exit_code_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err
    if says:
        assert err.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_answers_files_refuse_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.yaml").write_text("recipe: qwen3_8b_sft_config\ntensor_parallel: 4\n")
    assert run(["init", "--answers", "a.yaml", "--yes"]) == 2
    assert "a.yaml:2: `tensor_parallel` is no question of mbpack init" in capsys.readouterr().err


def test_every_flag_that_scripts_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "init --bridge 0.6 --recipe qwen3_30b_a3b_sft_8gpu_h100_bf16_config --family qwen3_moe --workload sft --modality text"
        " --data jsonl --gpus 16 --tp 2 --pp 2 --vpp 2 --cp 1 --ep 2 --etp 1 --sp --seq-length 4096 --gbs 32"
        " --cuda-graphs none --packing offline --launcher script --save-answers a.yaml --yes --no-input --output out.yaml --force"
    )
    assert run(words.split()) == 0
    text = Path("out.yaml").read_text()
    assert "virtual_pipeline_model_parallel_size: 2" in text
    assert "expert_model_parallel_size: 2" in text
    assert run(["init", "--answers", "a.yaml", "--no-input", "--dry-run", "--output", "b.yaml"]) == 0
    slots = words.replace("--gbs 32", "--token-slots 131072").replace("--sp ", "--no-sp --tp 1 ").replace("--tp 2 ", "", 1)
    assert run(slots.split()) == 0
    assert "global_batch_size: 32" in Path("out.yaml").read_text()


def test_token_slots_beat_the_batch_of_an_answers_file() -> None:
    assert run([*JOB, "--yes", "--gbs", "8", "--save-answers", "a.yaml"]) == 0
    assert run(["init", "--answers", "a.yaml", "--token-slots", "131072", "--yes", "--force"]) == 0
    assert "global_batch_size: 16" in Path("packing.yaml").read_text()
