"""`mbpack init` in a real terminal: prompts, going back, refusals, Ctrl-C, narrow screens, no terminal at all."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mbpack.wizard.judge import judge
from tests.wizard import recording
from tests.wizard.terminal import CTRL_C, CTRL_D, DOWN, ENTER, ESC, Terminal

#: Everything but topology, length and batch.
GIVEN = (
    "init --bridge 0.6 --workload lora --recipe qwen3_8b_peft_1gpu_h100_bf16_config --data jsonl --data-path /data --checkpoint"
    " /ckpt --gpus 16 --packing auto --cuda-graphs none --launcher script"
).split()


def finish_with_defaults(terminal: Terminal, *prompts: str) -> None:
    for prompt in prompts:
        terminal.reply(prompt, "")


def test_the_happy_path_is_the_recording(tmp_path: Path) -> None:
    recorded = recording.recorded()
    assert len(recorded) == len(recording.SCRIPT) + 1
    assert recording.markdown(recording.frames(recorded)) == recording.shown()


def test_back_twice_and_change(tmp_path: Path) -> None:
    with Terminal(*GIVEN, cwd=str(tmp_path)) as terminal:
        terminal.reply("Tensor parallel size [1]:", "4")
        terminal.reply("Pipeline parallel size [1]:", "")
        terminal.reply("Context parallel size [1]:", "b")
        terminal.wait_for("Pipeline parallel size [1]:\n")
        terminal.send(ESC)
        terminal.wait_for("Enter takes 4: your answer before")
        terminal.send("2" + ENTER)
        finish_with_defaults(
            terminal, "Pipeline", "Context parallel size [1]:", "Sequence parallel (y/n)", "Sequence length", "Global"
        )
        terminal.reply("Write it", "")
        assert terminal.finish() == 0
    text = (tmp_path / "packing.yaml").read_text()
    assert "tensor_model_parallel_size: 2" in text
    assert judge(text).verdict == "accepted"


def test_invalid_then_valid(tmp_path: Path) -> None:
    with Terminal(*GIVEN, "--pp", "1", "--cp", "2", cwd=str(tmp_path), env={"NO_COLOR": "1"}) as terminal:
        terminal.reply("Tensor parallel size [1]:", "3")
        terminal.wait_for("! 16 GPUs cannot be divided by TP 3 x PP 1 x CP 2 = 6")
        terminal.reply("Tensor parallel size [1]:", "4")
        terminal.reply("Sequence parallel (y/n) [yes]:", "perhaps")
        terminal.wait_for("neither yes nor no")
        terminal.reply("Sequence parallel (y/n) [yes]:", "n")
        terminal.reply("Sequence length in tokens [8192]:", "many")
        terminal.wait_for("no whole number")
        terminal.reply("Sequence length in tokens [8192]:", "4096")  # the default is shown, not typed: no 81924096
        terminal.reply("Global batch size [16]:", "15")
        terminal.wait_for("nearest: 14 or 16")
        terminal.reply("Global batch size [16]:", "?")
        terminal.wait_for("GBS101  The global batch must be a multiple")
        terminal.reply("Global batch size [16]:", "")
        terminal.reply("Write it", "y")
        assert terminal.finish() == 0
        assert "\x1b[38;" not in terminal.raw  # NO_COLOR
    assert "seq_length: 4096" in (tmp_path / "packing.yaml").read_text()


@pytest.mark.parametrize("place", ["Megatron-Bridge release (b", "Tensor parallel size [", "Write it"])
def test_ctrl_c_leaves_without_writing(tmp_path: Path, place: str) -> None:
    arguments = (
        ["init"] if place.startswith("Megatron") else [*GIVEN, "--pp", "1", "--cp", "1", "--seq-length", "8192", "--gbs", "16"]
    )
    if place == "Write it":
        arguments += ["--tp", "1"]
    with Terminal(*arguments, cwd=str(tmp_path)) as terminal:
        terminal.wait_for(place)
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
        assert "Nothing was written." in terminal.everything()
    assert os.listdir(tmp_path) == []


def test_lists_of_choices_and_search(tmp_path: Path) -> None:
    with Terminal("init", cwd=str(tmp_path)) as terminal:
        terminal.wait_for("Megatron-Bridge release (b")
        terminal.send("b")
        terminal.wait_for("this is the first question")
        terminal.wait_for("   0.3")
        terminal.send("?")
        terminal.wait_for("`mbpack explain NAME` says more: CFG101")
        terminal.send(DOWN + ENTER)
        terminal.wait_for("What are you training (b")
        terminal.send("b")
        terminal.wait_for("Enter takes 0.5: your answer before")
        terminal.send(ENTER)
        terminal.wait_for("What are you training (b")
        terminal.send(ENTER)
        terminal.wait_for("What does the model read (b")
        terminal.send(ENTER)
        terminal.reply("Recipe or model family:", "8b")
        terminal.wait_for("recipes match: ")
        terminal.wait_for("Recipe or model family (b")
        terminal.send("b")
        terminal.reply("Recipe or model family:", "")
        terminal.wait_for("there is no default")
        terminal.reply("Recipe or model family:", "qwen3")
        terminal.wait_for("-> family Qwen3 dense")
        terminal.wait_for("Recipe or model family (b")
        terminal.send("b")
        terminal.reply("Recipe or model family:", "7b olmoe")
        terminal.wait_for("olmoe_7b_sft_config")
        terminal.wait_for("Data (b")
        terminal.send(ENTER)
        terminal.wait_for("base model [")
        terminal.send(CTRL_D)
        assert terminal.finish() == 130


def test_a_refused_choice_says_why(tmp_path: Path) -> None:
    arguments = [word for word in GIVEN if word not in ("--cuda-graphs", "none")]
    with Terminal(*arguments, "--tp", "1", "--pp", "1", "--cp", "1", "--seq-length", "8192", cwd=str(tmp_path)) as terminal:
        terminal.wait_for("Attention  (not here, see ?)")
        terminal.send(DOWN * 3 + ENTER)
        terminal.wait_for("! attention cannot be captured")
        terminal.wait_for("CUDA graphs (b")
        terminal.send(CTRL_C)
        assert terminal.finish() == 130


def test_sixty_columns(tmp_path: Path) -> None:
    columns = 60
    with Terminal(*GIVEN, cwd=str(tmp_path), columns=columns, rows=24) as terminal:
        terminal.reply("Tensor parallel size [1]:", "4")
        finish_with_defaults(terminal, "Pipeline parallel", "Context parallel", "Sequence parallel", "Sequence length", "Global")
        terminal.wait_for("Write it")
        shown = terminal.everything()
        told = shown[: shown.index("packing.yaml (new)")]
        assert max(len(line) for line in told.splitlines()) < columns
        terminal.send(ENTER)
        assert terminal.finish() == 0


def test_an_existing_file_is_shown_as_a_diff_and_may_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "packing.yaml"
    path.write_text("model:\n  tensor_model_parallel_size: 8\n")
    sizes = ["--tp", "1", "--pp", "1", "--cp", "1", "--seq-length", "8192", "--gbs", "16"]
    with Terminal(*GIVEN, *sizes, cwd=str(tmp_path), rows=60) as terminal:
        terminal.wait_for("packing.yaml (changes)")
        terminal.wait_for("-  tensor_model_parallel_size: 8")
        terminal.wait_for("+  tensor_model_parallel_size: 1")
        terminal.reply("Write it (y/n) [no]:", "n")
        assert terminal.finish() == 1
        assert "Nothing was written." in terminal.everything()
    assert path.read_text() == "model:\n  tensor_model_parallel_size: 8\n"


@pytest.mark.parametrize("typed", ["", "0.6\n" + "y\n" * 40])
def test_without_a_terminal_nothing_is_read_from_a_pipe(tmp_path: Path, typed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mbpack", "init"], input=typed, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("mbpack init: --bridge, --workload, --modality, --recipe or --family, ")
    assert "there is no terminal to ask on" in done.stderr
    assert os.listdir(tmp_path) == []


SIZES = ["--tp", "1", "--pp", "1", "--cp", "1", "--seq-length", "8192"]
#: Typed by mistake at a question that takes yes or no; Ctrl-Z and a space are keys that leave something in the line.
WRONG = ["nope", "maybe", "q", "ja", "quit", "yes please", "0", "1", "true", "x", "\x1a", " ", "yy", "ok"]


def wait_for_count(terminal: Terminal, text: str, count: int) -> None:
    """Read until a text came up so often; a prompt is typed to only once it is there."""
    deadline = time.monotonic() + 30
    while terminal.everything().count(text) < count and time.monotonic() < deadline:
        assert terminal.pump()
    assert terminal.everything().count(text) == count


@pytest.mark.parametrize("old", [None, "# my own file, three days of work\n"])
def test_only_yes_writes(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "packing.yaml"
    if old is not None:
        path.write_text(old)
    prompted = f"Write it (y/n) [{'yes' if old is None else 'no'}]:"
    with Terminal(*GIVEN, *SIZES, cwd=str(tmp_path), rows=60) as terminal:
        terminal.reply("Global batch size [16]:", "")
        for count, answer in enumerate(WRONG, 1):
            wait_for_count(terminal, prompted, count)
            terminal.send(answer + ENTER)
            wait_for_count(terminal, "is neither yes nor no", count)
            assert (path.read_text() if path.exists() else None) == old
        terminal.reply(prompted, "?")
        terminal.wait_for("b goes back to the last question")
        assert (path.read_text() if path.exists() else None) == old
        terminal.send("b" + ENTER)
        terminal.wait_for("your answer before")
        terminal.send("32" + ENTER)
        terminal.wait_for("global_batch_size: 32")
        terminal.wait_for(prompted)
        terminal.send(ENTER)
        assert terminal.finish() == (0 if old is None else 1)
    text = path.read_text()
    assert text == old if old is not None else "global_batch_size: 32" in text
    assert os.listdir(tmp_path) == ["packing.yaml"]


@pytest.mark.parametrize("key", ["n" + ENTER, CTRL_C, CTRL_D])
def test_the_answers_survive(tmp_path: Path, key: str) -> None:
    with Terminal(*GIVEN, *SIZES, cwd=str(tmp_path), columns=400, rows=60) as terminal:
        terminal.reply("Global batch size [16]:", "32")
        terminal.wait_for("Write it")
        terminal.send(key)
        assert terminal.finish() == (1 if key[0] == "n" else 130)
        shown = terminal.everything()
    assert os.listdir(tmp_path) == []
    assert "--save-answers packing.answers.yaml" in shown
    (command,) = [line.strip() for line in shown.splitlines() if line.strip().startswith("mbpack init --bridge 0.6 ")]
    again = subprocess.run(
        [sys.executable, "-m", *shlex.split(command), "--yes"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert again.returncode == 0, again.stderr
    assert "global_batch_size: 32" in (tmp_path / "packing.yaml").read_text()


def test_every_yes_or_no_asks_again(tmp_path: Path) -> None:
    sizes = ["--tp", "2", "--pp", "1", "--cp", "1", "--seq-length", "8192", "--gbs", "16"]
    with Terminal(*GIVEN, *sizes, cwd=str(tmp_path), rows=60) as terminal:
        for count, answer in enumerate((word for word in WRONG if word not in ("0", "1", "true", " ")), 1):
            wait_for_count(terminal, "Sequence parallel (y/n)", count)
            terminal.send(answer + ENTER)
            wait_for_count(terminal, "is neither yes nor no", count)
        terminal.send("y" + ENTER)
        terminal.wait_for("Write it (y/n) [yes]:")
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
    assert os.listdir(tmp_path) == []


def test_words_and_public_names_find_their_recipe(tmp_path: Path) -> None:
    begun = ["init", "--bridge", "0.6", "--workload", "lora", "--modality", "text"]
    with Terminal(*begun, cwd=str(tmp_path)) as terminal:
        terminal.wait_for("a Hugging Face id (Qwen/Qwen3-8B)")
        terminal.reply("Recipe or model family:", "Qwen/Qwen3-8B")
        terminal.wait_for("qwen3_8b_peft_1gpu_h100_bf16_config")
        terminal.wait_for("Data (b")
        terminal.send("b")
        terminal.reply("Recipe or model family", "llama 3.1 8b")
        terminal.wait_for("llama31_8b_peft_1gpu_h100_bf16_config")
        terminal.wait_for("Data (b")
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
