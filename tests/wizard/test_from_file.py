"""`mbpack init --from`: what an override says are the answers, and what the wizard does not know stays byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.cli.main import run
from mbpack.config.document import parse
from mbpack.wizard.draft import Draft
from mbpack.wizard.from_file import merged, read
from mbpack.wizard.judge import judge
from mbpack.wizard.output import OutputError
from mbpack.wizard.plan import make_plan
from tests.wizard.terminal import ENTER, Terminal

OWN = """\
# Three days of work; do not touch.
# mbpack: bridge=0.6 recipe=qwen3_8b_peft_1gpu_h100_bf16_config gpus=16 launcher=script
model:
  tensor_model_parallel_size: 4   # fits the node
  sequence_parallel: true
  seq_length: 4096
  apply_rope_fusion: false  # until the fix is out

train: {micro_batch_size: 1, global_batch_size: 16, train_iters: 777}
dataset:
  seq_length: 4096
  num_workers: 3      # the file system is slow
  enable_offline_packing: true
  offline_packing_specs:
    _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs
    packed_sequence_size: 4096
    pad_seq_to_mult: 4
    num_tokenizer_workers: 7
checkpoint: {pretrained_checkpoint: /ckpt/mine}
logger:
  wandb_project: mine
"""
#: What no question is about.
UNKNOWN = ("# Three days of work; do not touch.", "# fits the node", "apply_rope_fusion: false  # until the fix is out")
UNKNOWN += (
    "train_iters: 777",
    "num_workers: 3      # the file system is slow",
    "num_tokenizer_workers: 7",
    "wandb_project: mine",
)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "packing.yaml"
    path.write_text(OWN)
    return path


def test_what_the_file_says_are_the_answers(own: Path) -> None:
    start = read(str(own))
    wanted = {"bridge": "0.6", "gpus": 16, "launcher": "script", "tp": 4, "sp": True, "seq_length": 4096, "mbs": 1, "gbs": 16}
    assert start.answers == {
        **wanted,
        "recipe": "qwen3_8b_peft_1gpu_h100_bf16_config",
        "packing": "offline",
        "data_path": None,
        "checkpoint": "/ckpt/mine",
    }
    assert start.origins["tp"] == f"line 4 of {own}"
    assert start.origins["recipe"] == f"the comment in {own}"


def test_nothing_changed_is_nothing_written(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = read(str(own))
    assert merged(start, make_plan(Draft({**start.answers}))).text == OWN
    assert run(["init", "--from", "packing.yaml", "--yes"]) == 0
    assert "is already exactly this" in capsys.readouterr().out
    assert own.read_text() == OWN


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_change_and_what_follows_it_are_all_that_changes(own: Path, newline: str) -> None:
    own.write_bytes(OWN.replace("\n", newline).encode())
    assert run(["init", "--from", "packing.yaml", "--cp", "2", "--yes", "--force"]) == 0
    text = own.read_bytes().decode()
    assert all(part in text for part in UNKNOWN)
    assert text.count("\r\n") == (text.count("\n") if newline == "\r\n" else 0)
    before, after = parse(OWN).root, parse(text).root
    assert before is not None
    assert after is not None
    old, new = before.plain, after.plain
    assert new["model"].pop("context_parallel_size") == 2
    assert new["model"].pop("calculate_per_token_loss", True) is True
    assert new.pop("ddp", {"average_in_collective": False}) == {"average_in_collective": False}  # the recipe may have it
    assert new["dataset"]["offline_packing_specs"].pop("pad_seq_to_mult") == 8
    assert old["dataset"]["offline_packing_specs"].pop("pad_seq_to_mult") == 4
    assert new == old
    assert judge(text).verdict == "accepted"


def test_what_a_change_makes_wrong_is_taken_out(own: Path) -> None:
    assert run(["init", "--from", "packing.yaml", "--packing", "none", "--yes", "--force"]) == 0
    text = own.read_text()
    assert all(part in text for part in UNKNOWN if "num_tokenizer" not in part)
    assert "enable_offline_packing: false" in text
    assert judge(text).verdict == "accepted"


def test_a_broken_file_is_a_start_too(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text(
        OWN.replace("micro_batch_size: 1", "micro_batch_size: 2").replace("4096\n  num_workers", "2048\n  num_workers")
    )
    assert run(["init", "--from", "packing.yaml", "--yes", "--force"]) == 0
    assert own.read_text() == OWN
    assert "-  seq_length: 2048" in capsys.readouterr().out


def test_what_the_wizard_cannot_mend_is_said(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text(OWN.replace("  apply_rope_fusion", "  hidden_sise: 3\n  apply_rope_fusion"))
    assert run(["init", "--from", "packing.yaml", "--yes", "--force"]) == 0
    assert "hidden_sise: 3" in own.read_text()
    assert "still in the file: " in capsys.readouterr().out


def test_an_existing_file_is_not_overwritten_without_a_word(own: Path) -> None:
    assert run(["init", "--from", "packing.yaml", "--cp", "2", "--yes"]) == 2
    assert own.read_text() == OWN
    assert run(["init", "--from", "packing.yaml", "--cp", "2", "--yes", "--output", "new.yaml"]) == 0
    assert own.read_text() == OWN
    assert "num_tokenizer_workers: 7" in Path("new.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "packing.yaml"),
        ("_target_: megatron.bridge.training.config.ConfigContainer\n", "is a whole saved configuration"),
        ("# mbpack: bridge=0.6 recipe=qwen3_8b_peft_cnofig\nmodel: {}\n", "has no recipe"),
    ],
)
def test_what_is_no_start_is_refused(own: Path, text: str, says: str) -> None:
    own.write_text(text)
    with pytest.raises(OutputError, match=says):
        read(str(own))
    assert run(["init", "--from", "packing.yaml", "--yes"]) == 2
    assert run(["init", "--from", "packing.yaml", "--as", "sbatch", "--yes"]) == 2
    assert run(["init", "--from", "missing.yaml", "--yes"]) == 2


def test_at_a_terminal_nothing_is_asked_and_lines_say_where_they_come_from(own: Path) -> None:
    with Terminal("init", "--from", "packing.yaml", cwd=str(own.parent), columns=110, rows=110) as terminal:
        terminal.wait_for("Review of packing.yaml (already exactly this)")
        terminal.wait_for("Write it")
        assert "line 4 of packing.yaml" in terminal.everything()
        terminal.send("11 2" + ENTER)
        terminal.wait_for("Review of packing.yaml (changes)")
        terminal.wait_for("8 = lcm(2*CP = 4, CP*TP = 8) (was 4)")
        terminal.send("y" + ENTER)
        assert terminal.finish() == 0
    assert "context_parallel_size: 2" in own.read_text()
    assert all(part in own.read_text() for part in UNKNOWN)
