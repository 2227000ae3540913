"""Completion in the shells themselves. Bash runs by default; zsh and fish, which few machines have, with ``-m conformance``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import Call

#: What is typed before the key Tab, and a word that must be offered or filled in.
TYPED = [
    ("mbpack do", "doctor"),
    ("mbpack doctor --unsafe", "--unsafe-fixes"),
    ("mbpack doctor --format conc", "concise"),
    ("mbpack plan --format js", "json"),
    ("mbpack doctor --recipe qwen3_8b_sft_4", "qwen3_8b_sft_4gpu_h100_bf16_config"),
    ("mbpack explain ALN10", "ALN101"),
    ("mbpack init --workload lo", "lora"),
    ("mbpack init --family qwen3_n", "qwen3_next"),
    ("mbpack doctor --color al", "always"),
    ("mbpack list fam", "families"),
    ("mbpack schema migr", "migrate"),
    ("mbpack doctor myfi", "myfile.yaml"),
]
NOT_OFFERED = [("mbpack plan --format ", "sarif"), ("mbpack list --format ", "gitlab")]


@pytest.fixture
def script(mbpack: Call, folder: Path, request: pytest.FixtureRequest) -> Path:
    (folder / "myfile.yaml").write_text("")
    path = folder / "completion"
    path.write_text(mbpack("completion", request.function.__name__.split("_")[1]).out)
    return path


def in_bash(script: Path, typed: str) -> list[str]:
    words = " ".join(f"'{word}'" for word in typed.split(" "))
    asked = (
        f"source {script}\nCOMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}}-1))\n"
        "$(complete -p mbpack | sed 's/.*-F \\([^ ]*\\).*/\\1/')\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "--norc", "-c", f"{asked}"], cwd=script.parent, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout.split()


def test_bash_completes(script: Path) -> None:
    for typed, word in TYPED:
        assert word in in_bash(script, typed), typed
    for typed, word in NOT_OFFERED:
        assert word not in in_bash(script, typed), typed


@pytest.mark.conformance
def test_fish_completes(script: Path) -> None:
    def offered(typed: str) -> list[str]:
        asked = f"source {script}; complete -C '{typed}'"
        done = subprocess.run(["fish", "-N", "-c", asked], cwd=script.parent, capture_output=True, text=True, check=True)
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    for typed, word in TYPED:
        assert word in offered(typed), typed
    for typed, word in NOT_OFFERED:
        assert word not in offered(typed), typed


@pytest.mark.conformance
@pytest.mark.parametrize("installed", ["sourced", "in fpath"])
def test_zsh_completes(script: Path, installed: str) -> None:
    shell = pexpect.spawn("zsh", ["-f", "-i"], cwd=str(script.parent), encoding="utf-8", dimensions=(40, 200), timeout=30)
    shell.expect("# ")
    if installed == "sourced":
        shell.sendline("PS1='ready> '; autoload -Uz compinit; compinit -u -D; source ./completion; unsetopt zle_bracketed_paste")
    else:
        (script.parent / "functions").mkdir()
        script.rename(script.parent / "functions" / "_mbpack")
        shell.sendline("PS1='ready> '; fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D")
    shell.expect("ready> .*ready> |ready> ")
    shell.sendline("setopt no_list_beep; print st''arted")
    shell.expect("started")
    for typed, word in TYPED:
        shell.send(typed + "\t")
        shell.expect_exact(word if word.startswith("ALN") else word[len(typed.split(" ")[-1]) :])
        shell.send("\x15")  # forget the line
    shell.close(force=True)
