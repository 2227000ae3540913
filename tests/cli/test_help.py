"""Help pages, the manual page, the environment: complete, current, and no wider than 80 columns."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from mbpack.cli.help_texts import ENVIRONMENT, HELP, PANELS
from mbpack.cli.main import COMMANDS
from mbpack.wizard.answers import KINDS, WORD
from tests.cli.conftest import Call

ROOT = Path(__file__).parents[2]
MAN = (ROOT / "man" / "mbpack.1").read_text(encoding="utf-8")


def parameters(command: str) -> dict[str, object]:
    app = typer.Typer(add_completion=False)
    import_module(COMMANDS[command]).register(app)
    return {str(param.name): param for param in get_command(app).params}


@pytest.mark.parametrize("command", COMMANDS)
def test_two_examples_and_lines_that_fit(mbpack: Call, command: str) -> None:
    assert len(HELP[command].examples) >= 2
    out = mbpack(command, "-h").out
    examples = {f"  {line}".rstrip() for example in HELP[command].examples for line in ("", f"  {example}")}
    assert [line for line in out.splitlines() if len(line) > 80 and line not in examples] == []
    assert re.search(r"Exit codes: 0 nothing wrong;.* 70 a defect", " ".join(out.split()))
    assert "--color auto|always|never" in out


def test_the_list_of_commands_fits(mbpack: Call) -> None:
    out = mbpack("-h").out
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert "..." not in out.partition("Commands:")[2]


@pytest.mark.parametrize("command", PANELS)
def test_options_stand_below_their_headings(mbpack: Call, command: str) -> None:
    named = [name for names in PANELS[command].values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= set(parameters(command))
    out = mbpack(command, "-h").out
    headings = [out.index(f"\n{heading}:\n") for heading in PANELS[command]]
    assert headings == sorted(headings)
    rest = out.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert rest.count("\n  -") + 1 <= 12


def test_every_option_is_listed_once_on_its_page(mbpack: Call) -> None:
    for command in COMMANDS:
        listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", mbpack(command, "-h").out, re.M)
        assert (
            len(listed) == len(set(listed)) == len([p for p in parameters(command).values() if p.param_type_name == "option"]) + 1
        )  # type: ignore[attr-defined]


def test_choices_of_the_wizard_are_those_that_it_takes() -> None:
    for name, param in parameters("init").items():
        if name in KINDS and KINDS[name].kind == WORD and name != "gpu":
            assert param.metavar == f"[{'|'.join(KINDS[name].words)}]", name  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- environment


def test_every_variable_that_is_read_is_told(mbpack: Call) -> None:
    read = set()
    for path in (ROOT / "src").rglob("*.py"):
        read |= set(re.findall(r"""os\.environ(?:\.get\(|\[)"([A-Z_]+)\"""", path.read_text(encoding="utf-8")))
    assert read - {"X"} == set(ENVIRONMENT)  # X stands in a docstring
    out = mbpack("-h").out
    assert all(f"  {name} " in out for name in ENVIRONMENT)


# ---------------------------------------------------------------------- the manual page


def test_the_manual_page_is_current() -> None:
    done = subprocess.run([sys.executable, "tools/man_page.py", "--check"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, "run python tools/man_page.py"


def test_the_manual_page_has_everything() -> None:
    plain = MAN.replace("\\-", "-")
    for command in COMMANDS:
        section = plain.partition(f".SS mbpack {command}\n")[2].partition("\n.SS ")[0]
        for name, param in parameters(command).items():
            if param.param_type_name == "option" and name != "help":  # type: ignore[attr-defined]
                assert all(option in section for option in param.opts), (command, name)  # type: ignore[attr-defined]
        assert all(example.replace("\\", "\\e") in section for example in HELP[command].examples), command
    assert all(f"\\fB{name}\\fR" in plain for name in ENVIRONMENT)


def test_the_wheel_carries_the_manual_page() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"man/mbpack.1" = "share/man/man1/mbpack.1"' in project
