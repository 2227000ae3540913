"""A well-formed call is read without typer, and as typer reads it; colour is chosen by flag, variables and terminal."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from mbpack.cli import doctor as module
from mbpack.cli.doctor import doctor
from mbpack.cli.quick import arguments_of
from tests.cli.conftest import BROKEN, Call

ANSI = "\x1b["


@pytest.fixture(scope="module")
def command() -> Any:
    app = typer.Typer(add_completion=False)
    module.register(app)
    return get_command(app)


def by_typer(command: Any, words: list[str]) -> dict[str, Any]:
    found = command.make_context("doctor", list(words)).params
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items() if name != "help"}


def whole(found: dict[str, Any]) -> dict[str, Any]:
    defaults = {name: parameter.default for name, parameter in inspect.signature(doctor).parameters.items()}
    return {**defaults, **found}


def test_every_option_is_read_as_typer_reads_it(command: Any) -> None:
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    assert len(options) > 20
    for param in options:
        value = [] if param.is_flag else ["7"]
        for name in param.opts:
            for words in (["a.yaml", name, *value], [name, *value, "b.yaml", "a=1", "-"]):
                found = arguments_of(doctor, words)
                assert found is not None, words
                assert whole(found) == by_typer(command, words)


def test_values_after_an_equals_sign(command: Any) -> None:
    words = ["--gpus=16", "--format=json", "--select=", "--output=-", "a.yaml"]
    assert whole(arguments_of(doctor, words) or {}) == by_typer(command, words)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--nosuch", "1"],
        ["--strict=yes"],
        ["--gpus"],
        ["--gpus", "--strict"],
        ["--gpus", "many"],
        ["--gpus", "-1"],
        ["--gpus", "9" * 5000],
        ["--stric"],
        ["--", "--strict"],
    ],
)
def test_what_is_not_plainly_well_formed_is_left_to_typer(words: list[str]) -> None:
    assert arguments_of(doctor, ["a.yaml", *words]) is None


def test_a_call_with_options_imports_no_typer(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BROKEN)
    code = (
        "import sys; from mbpack.cli.main import run; run(['doctor', 'a.yaml', '--gpus', '16', '--format=json', '--strict']);"
        "print('typer' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"


# ---------------------------------------------------------------------- colour


@pytest.mark.parametrize("place", ["before", "after", "equals"])
def test_colour_is_chosen_anywhere_on_the_command_line(mbpack: Call, folder: Path, place: str) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    words = {
        "before": ("--color", "always", "doctor", "a.yaml"),
        "after": ("doctor", "a.yaml", "--strict", "--color", "always"),
        "equals": ("doctor", "--color=always", "a.yaml"),
    }[place]
    before = dict(os.environ)
    assert ANSI in mbpack(*words).out
    assert dict(os.environ) == before
    assert ANSI not in mbpack(*(word.replace("always", "auto") for word in words)).out


@pytest.mark.parametrize(
    ("variables", "flag", "coloured"),
    [
        ({}, "auto", False),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "0"}, "auto", False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        ({"FORCE_COLOR": "1"}, "never", False),
        ({"NO_COLOR": "1"}, "always", True),
    ],
)
@pytest.mark.parametrize("command", [("doctor", "a.yaml"), ("explain", "ALN101"), ("fit", "a.yaml", "--no-search")])
def test_the_flag_goes_before_the_variables(
    mbpack: Call,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    variables: dict[str, str],
    flag: str,
    coloured: bool,
) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (ANSI in mbpack(*command, "--color", flag).out) is coloured


@pytest.mark.parametrize("words", [("--color", "sometimes"), ("--color",), ("--color=",)])
def test_a_word_that_says_nothing_about_colour_is_refused(mbpack: Call, words: tuple[str, ...]) -> None:
    answer = mbpack("doctor", "a.yaml", *words)
    assert (answer.code, answer.out) == (2, "")
    assert "use auto, always or never" in answer.err
