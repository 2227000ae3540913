"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mbpack.cli.main import COMMANDS, run

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_screenful_is_what_doctor_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command, shown = blocks("text")[0].split("\n", 1)
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert run(shlex.split(command.removeprefix("$ mbpack "))) == 1
    assert capsys.readouterr().out == shown


def test_the_first_two_shell_blocks_set_everything_up() -> None:
    first, second = blocks("sh")[:2]
    for block in (first, second):
        assert "python3 -m venv .venv" in block
        assert "-m pip install" in block
    assert "mbpack doctor" in first
    assert second.rstrip().endswith("-m pytest")


def test_every_command_is_described() -> None:
    for name in COMMANDS:
        assert f"| `mbpack {name}" in README, name


def test_console_lines_use_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in blocks("console") for line in block.splitlines() if line.startswith("$ mbpack ")]
    assert lines
    for line in lines:
        words = shlex.split(line.removeprefix("$ mbpack "))
        assert run([words[0], "--help"]) == 0
        help_text = capsys.readouterr().out
        for word in words[1:]:
            if word.startswith("--"):
                assert word in help_text, (line, word)
