"""`mbpack init` in a real terminal: prompts, going back, refusals, Ctrl-C, narrow screens, no terminal at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mbpack.wizard.judge import judge
from tests.wizard import recording
from tests.wizard.terminal import CTRL_C, CTRL_D, DOWN, ENTER, ESC, Terminal

PROMPT = "Write it (y/n), or change a line (its number)"
#: All that is asked before the review.
GIVEN = (
    "init --bridge 0.6 --workload lora --recipe qwen3_8b_peft_1gpu_h100_bf16_config --data jsonl --data-path /data --checkpoint"
    " /ckpt --gpus 16 --packing auto --cuda-graphs none --launcher script"
).split()


def line_of(terminal: Terminal, label: str) -> str:
    """The number of a line of the review that is on the screen."""
    return [line.split()[0] for line in terminal.everything().splitlines() if re.match(rf"\s*\d+  {label}  ", line)][-1]


def test_the_happy_path_is_the_recording(tmp_path: Path) -> None:
    recorded = recording.recorded()
    assert len(recorded) == len(recording.SCRIPT) + 1
    assert recording.markdown(recording.frames(recorded)) == recording.shown()


def test_a_line_is_changed_by_its_number_and_what_depends_on_it_follows(tmp_path: Path) -> None:
    with Terminal(*GIVEN, cwd=str(tmp_path), rows=90) as terminal:
        terminal.wait_for(PROMPT)
        terminal.send(line_of(terminal, "Tensor parallel") + ENTER)
        terminal.reply("Tensor parallel size [1]:", "4")
        terminal.wait_for("(was 1)")
        terminal.wait_for(PROMPT)
        terminal.send(line_of(terminal, "Context parallel") + " 2" + ENTER)
        terminal.wait_for("8 = lcm(2*CP = 4, CP*TP = 8) (was 4)")
        terminal.wait_for("data parallel            2 = 16 / (TP 4 x PP 1 x CP 2) (was 4)")
        terminal.reply(PROMPT, "")
        assert terminal.finish() == 0
    text = (tmp_path / "packing.yaml").read_text()
    assert "tensor_model_parallel_size: 4" in text
    assert "pad_seq_to_mult: 8" in text
    assert judge(text).verdict == "accepted"


def test_back_twice_and_change(tmp_path: Path) -> None:
    with Terminal("init", "--bridge", "0.6", cwd=str(tmp_path), rows=90) as terminal:
        terminal.wait_for("What are you training (b")
        terminal.send(DOWN + ENTER)
        terminal.reply("Recipe or model family:", "qwen3 8b")
        terminal.reply("Your data: a path", "")
        terminal.reply("GPUs in all [1]:", "4")
        terminal.wait_for(PROMPT)
        terminal.send("b" + ENTER)
        terminal.wait_for("Enter takes 4: your answer before")
        terminal.send(ESC)
        terminal.wait_for("Enter takes the recipe's own: your answer before")
        terminal.send(ENTER)
        terminal.reply("GPUs in all [4]:", "2")
        terminal.reply(PROMPT, "")
        assert terminal.finish() == 0
    text = (tmp_path / "packing.yaml").read_text()
    assert "gpus=2" in text
    assert judge(text).verdict == "accepted"


def test_invalid_then_valid(tmp_path: Path) -> None:
    sizes = ["--pp", "1", "--cp", "2"]
    with Terminal(*GIVEN, *sizes, cwd=str(tmp_path), rows=90, env={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for(PROMPT)
        number = {label: line_of(terminal, label) for label in ("Tensor parallel", "Sequence length", "Global batch")}
        terminal.send(number["Tensor parallel"] + ENTER)
        terminal.reply("Tensor parallel size [1]:", "3")
        terminal.wait_for("! 16 GPUs cannot be divided by TP 3 x PP 1 x CP 2 = 6")
        terminal.reply("Tensor parallel size [1]:", "4")
        terminal.wait_for("Sequence parallel")
        terminal.wait_for(PROMPT)
        terminal.send(line_of(terminal, "Sequence parallel") + ENTER)
        terminal.reply("Sequence parallel (y/n) [yes]:", "perhaps")
        terminal.wait_for("neither yes nor no")
        terminal.reply("Sequence parallel (y/n) [yes]:", "n")
        wait_for_count(terminal, PROMPT, 3)
        terminal.send(line_of(terminal, "Sequence length") + " many" + ENTER)
        terminal.wait_for("no whole number")
        terminal.send(line_of(terminal, "Sequence length") + " 4096" + ENTER)
        wait_for_count(terminal, PROMPT, 5)
        terminal.send(line_of(terminal, "Global batch") + " 15" + ENTER)
        terminal.wait_for("nearest: 14 or 16")
        terminal.send("? " + line_of(terminal, "Global batch") + ENTER)
        terminal.wait_for("GBS101  The global batch must be a multiple")
        terminal.send("y" + ENTER)
        assert terminal.finish() == 0
        assert "\x1b[38;" not in terminal.raw  # NO_COLOR
    assert "seq_length: 4096" in (tmp_path / "packing.yaml").read_text()


@pytest.mark.parametrize("place", ["What are you training (b", "Write it"])
def test_ctrl_c_leaves_without_writing(tmp_path: Path, place: str) -> None:
    with Terminal(*(GIVEN if place == "Write it" else ["init"]), cwd=str(tmp_path), rows=90) as terminal:
        terminal.wait_for(place)
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
        assert "Nothing was written." in terminal.everything()
    assert os.listdir(tmp_path) == []


def test_lists_of_choices_and_search(tmp_path: Path) -> None:
    with Terminal("init", cwd=str(tmp_path)) as terminal:
        terminal.wait_for("For Megatron-Bridge 0.6: newest release whose package mbpack has run")
        terminal.wait_for("What are you training (b")
        terminal.send("b")
        terminal.wait_for("this is the first question")
        terminal.send("?")
        terminal.wait_for("are cut to the sequence length already. LoRA")
        terminal.send(ENTER)
        terminal.reply("Recipe or model family:", "8b")
        terminal.wait_for("recipes match: ")
        terminal.wait_for("Recipe or model family (b")
        terminal.send("b")
        terminal.reply("Recipe or model family:", "")
        terminal.wait_for("there is no default")
        terminal.reply("Recipe or model family:", "qwen3")
        terminal.wait_for("-> family Qwen3 dense")
        terminal.wait_for(" » qwen3_1p7b_sft_1gpu_h100_bf16_config")
        terminal.send("b")
        terminal.reply("Recipe or model family:", "7b olmoe")
        terminal.wait_for("olmoe_7b_sft_8gpu_h100_bf16_config")
        terminal.wait_for("Your data: a path")
        terminal.send(CTRL_D)
        assert terminal.finish() == 130


def test_a_refused_choice_says_why(tmp_path: Path) -> None:
    with Terminal(*GIVEN, cwd=str(tmp_path), rows=90) as terminal:
        terminal.wait_for(PROMPT)
        terminal.send(line_of(terminal, "CUDA graphs") + ENTER)
        terminal.wait_for("Attention  (not here, see ?)")
        terminal.send(DOWN * 3 + ENTER)
        terminal.wait_for("! attention cannot be captured")
        terminal.wait_for("CUDA graphs (b")
        terminal.send("b")
        wait_for_count(terminal, PROMPT, 2)
        terminal.send(CTRL_C)
        assert terminal.finish() == 130


@pytest.mark.parametrize("columns", [60, 80, 128])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    with Terminal(*GIVEN, "--tp", "4", "--pp", "2", cwd=str(tmp_path), columns=columns, rows=24) as terminal:
        terminal.wait_for(PROMPT[:12])
        shown = terminal.everything()
        told = shown[: shown.index("Write it (")]
        assert max(len(line) for line in told.splitlines()) < columns
        terminal.send(ENTER)
        assert terminal.finish() == 0


def test_an_existing_file_is_shown_as_a_diff_and_may_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "packing.yaml"
    path.write_text("model:\n  tensor_model_parallel_size: 8\n")
    with Terminal(*GIVEN, cwd=str(tmp_path), rows=110) as terminal:
        terminal.wait_for("packing.yaml (changes)")
        terminal.wait_for("-  tensor_model_parallel_size: 8")
        terminal.wait_for("+  tensor_model_parallel_size: 1")
        terminal.reply(f"{PROMPT} [no]:", "n")
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
    assert done.stderr.startswith("mbpack init: --workload, --recipe or --family, --data or --data-path, --gpus are missing")
    assert "there is no terminal to ask on" in done.stderr
    assert os.listdir(tmp_path) == []


#: Typed by mistake at the last prompt; Ctrl-Z and a space are keys that leave something in the line, 0 and 99 are no lines.
WRONG = ["nope", "maybe", "q", "ja", "quit", "yes please", "0", "99", "true", "x", "\x1a", " ", "yy", "ok", "-1", "1.5"]


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
    prompted = f"{PROMPT} [{'yes' if old is None else 'no'}]:"
    asked = [word for word in GIVEN if word not in ("--gpus", "16")]
    with Terminal(*asked, cwd=str(tmp_path), columns=100, rows=90) as terminal:
        terminal.reply("GPUs in all [1]:", "16")
        for count, answer in enumerate(WRONG, 1):
            wait_for_count(terminal, prompted, count)
            terminal.send(answer + ENTER)
            wait_for_count(terminal, "  ! ", count)
            assert (path.read_text() if path.exists() else None) == old
        terminal.reply(prompted, "?")
        terminal.wait_for("b goes back to the last question")
        terminal.send("f" + ENTER)
        terminal.wait_for("+# mbpack: bridge=0.6")
        assert (path.read_text() if path.exists() else None) == old
        terminal.send("b" + ENTER)
        terminal.wait_for("your answer before")
        terminal.send("32" + ENTER)
        terminal.wait_for("data parallel            32")
        wait_for_count(terminal, prompted, len(WRONG) + 4)
        terminal.send(ENTER)
        assert terminal.finish() == (0 if old is None else 1)
    text = path.read_text()
    assert text == old if old is not None else "gpus=32" in text
    assert os.listdir(tmp_path) == ["packing.yaml"]


@pytest.mark.parametrize("key", ["n" + ENTER, CTRL_C, CTRL_D])
def test_the_answers_survive(tmp_path: Path, key: str) -> None:
    with Terminal(*GIVEN, cwd=str(tmp_path), columns=400, rows=90) as terminal:
        terminal.wait_for(PROMPT)
        terminal.send(line_of(terminal, "Global batch") + " 32" + ENTER)
        wait_for_count(terminal, PROMPT, 2)
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


def test_answers_are_kept_as_they_are_given_and_offered_again(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    work = tmp_path / "work"
    work.mkdir()
    with Terminal("init", "--bridge", "0.6", cwd=str(work), rows=90, env=state) as terminal:
        terminal.wait_for("What are you training (b")
        terminal.send(DOWN + ENTER)
        terminal.reply("Recipe or model family:", "qwen3 8b")
        terminal.reply("Your data: a path", "")
        terminal.wait_for("GPUs in all [1]:")
        terminal.process.kill(9)  # nobody can say goodbye
    with Terminal("init", "--bridge", "0.6", cwd=str(work), rows=90, env=state) as terminal:
        terminal.wait_for("Enter takes LoRA: your answer before")
        terminal.send(ENTER)
        terminal.reply("Recipe or model family [qwen3_8b_peft_1gpu_h100_bf16_config]:", "")
        terminal.reply("Your data: a path", "")
        terminal.reply("GPUs in all [1]:", "8")
        terminal.wait_for(PROMPT)
        terminal.send(line_of(terminal, "Tensor parallel") + " 2" + ENTER)
        wait_for_count(terminal, PROMPT, 2)
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
        assert "`mbpack init` offers them again" in terminal.everything()
    assert os.listdir(work) == []
    with Terminal("init", "--bridge", "0.6", cwd=str(work), rows=90, env=state) as terminal:
        for _ in range(4):
            terminal.pump()
        terminal.wait_for("What are you training (b")
        terminal.send(ENTER)
        terminal.reply("Recipe or model family [", "")
        terminal.reply("Your data: a path", "")
        terminal.reply("GPUs in all [8]:", "")
        terminal.wait_for(PROMPT)
        shown = re.sub(r"\s+", " ", terminal.everything())
        assert "Tensor parallel 2 your answer before" in shown
        terminal.send("y" + ENTER)
        assert terminal.finish() == 0
    assert "tensor_model_parallel_size: 2" in (work / "packing.yaml").read_text()
    with Terminal("init", "--bridge", "0.6", "--fresh", cwd=str(work), rows=90, env=state) as terminal:
        terminal.wait_for("Enter takes SFT: ")
        terminal.wait_for("What are you training (b")
        terminal.send(CTRL_C)
        assert terminal.finish() == 130


def test_a_folder_of_state_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    work = tmp_path / "work"
    work.mkdir()
    with Terminal(*GIVEN, cwd=str(work), rows=90, env={"XDG_STATE_HOME": str(tmp_path / "state")}) as terminal:
        terminal.reply(PROMPT, "")
        assert terminal.finish() == 0
    assert os.listdir(work) == ["packing.yaml"]


#: What a newcomer's LoRA answers, by the prompt that is waited for.
NEWCOMER = {
    "What are you training (b": DOWN + ENTER,
    "Recipe or model family:": "qwen3" + ENTER,
    "Recipe or model family (b": ENTER,
    "Your data: a path": "/shared/rows" + ENTER,
    "What the data are (b": DOWN + ENTER,
    "GPUs in all [": "8" + ENTER,
}


def test_a_newcomers_lora_takes_at_most_six_questions(tmp_path: Path) -> None:
    """Counted with the vaguest answers: a family in place of a recipe, data that cannot be read from here."""
    with Terminal("init", cwd=str(tmp_path), rows=90) as terminal:
        for prompt, answer in NEWCOMER.items():
            terminal.wait_for(prompt)
            terminal.send(answer)
        terminal.wait_for(PROMPT)
        asked = [line for line in terminal.everything().splitlines() if line.startswith("> ")]
        assert len(asked) - 1 == len(NEWCOMER) == 6
        terminal.send(ENTER)
        assert terminal.finish() == 0
    text = (tmp_path / "packing.yaml").read_text()
    assert judge(text).verdict == "accepted"
    assert "dataset_root: /shared/rows" in text


def test_data_that_can_be_read_say_what_they_are(tmp_path: Path) -> None:
    data = tmp_path / "chats"
    data.mkdir()
    rows = [
        {"messages": [{"role": "user", "content": "a" * 90 * n}, {"role": "assistant", "content": "b" * 200}]} for n in range(400)
    ]
    (data / "training.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    with Terminal("init", "--recipe", "qwen3_8b_peft_config", "--gpus", "8", cwd=str(tmp_path), columns=110, rows=90) as terminal:
        terminal.reply("Your data: a path", str(data / "training.jsonl"))
        terminal.wait_for(PROMPT)
        shown = re.sub(r"\s+", " ", terminal.everything())
        assert "the first 20 rows of training.jsonl hold `messages`" in shown
        assert re.search(
            r"Padding \d+\.\d% of the packs; without packing \d\d% of every row \(estimated from the first 213 rows", shown
        )
        assert "GPU memory about" in shown
        assert "holds no validation.jsonl" in shown
        terminal.send(ENTER)
        assert terminal.finish() == 0
    text = (tmp_path / "packing.yaml").read_text()
    assert f"dataset_root: {data}\n" in text.replace("  # holds training.jsonl and validation.jsonl", "")
    assert "ChatSFTPreprocessingConfig" in text
    assert "do_validation: false" in text


def test_words_and_public_names_find_their_recipe(tmp_path: Path) -> None:
    begun = ["init", "--bridge", "0.6", "--workload", "lora"]
    with Terminal(*begun, cwd=str(tmp_path)) as terminal:
        terminal.wait_for("a Hugging Face id (Qwen/Qwen3-8B)")
        terminal.reply("Recipe or model family:", "Qwen/Qwen3-8B")
        terminal.wait_for("qwen3_8b_peft_1gpu_h100_bf16_config")
        terminal.wait_for("Your data: a path")
        terminal.send("b" + ENTER)
        terminal.reply("Recipe or model family", "llama 3.1 8b")
        terminal.wait_for("llama31_8b_peft_1gpu_h100_bf16_config")
        wait_for_count(terminal, "Your data: a path", 2)
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
