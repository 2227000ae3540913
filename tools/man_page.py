"""Writes man/mbpack.1 from the commands themselves: ``python tools/man_page.py [--check]``.

The wheel carries the page as share/man/man1/mbpack.1, where `man mbpack` finds it beside an installed mbpack.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from mbpack import __version__
from mbpack.cli.help_texts import ENVIRONMENT, HELP, exit_codes
from mbpack.cli.main import COMMANDS
from mbpack.facts.pages import SITE

TARGET = Path(__file__).resolve().parents[1] / "man" / "mbpack.1"
FILES = {
    "pyproject.toml": "Table [tool.mbpack]: bridge, recipe, gpus, gpu, nodes, launcher, step, select, ignore.",
    "# mbpack: ...": "The same in a configuration itself, as a comment; # mbpack: ignore[CODE] reason silences a rule there.",
}


def page() -> str:
    """The page in the man macros."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f'.TH MBPACK 1 "" "mbpack {__version__}" "User Commands"'
    yield from (".SH NAME", r"mbpack \- wizard and configuration doctor for sequence packing in NVIDIA Megatron\-Bridge")
    yield from (".SH SYNOPSIS", ".B mbpack", ".I COMMAND", r"[\fIOPTIONS\fR] [\fIARGUMENTS\fR]")
    yield from (".SH DESCRIPTION", _escaped("Finds every problem of a configuration at once, and writes one that has none."))
    yield _escaped("No GPU and no network is needed. Every command takes --color auto|always|never and -h.")
    yield ".SH COMMANDS"
    for name in COMMANDS:
        yield from _command(name)
    yield ".SH ENVIRONMENT"
    for variable, text in ENVIRONMENT.items():
        yield from _entry(variable, text)
    yield ".SH FILES"
    for file, text in FILES.items():
        yield from _entry(file, text)
    yield from (".SH EXIT STATUS", _escaped("0 nothing wrong; 1 as each command says; 2 unusable input; 70 a defect of mbpack;"))
    yield _escaped("130 interrupted.")
    yield from (".SH SEE ALSO", _escaped(SITE))


def _command(name: str) -> Iterator[str]:
    app = typer.Typer(add_completion=False)
    import_module(COMMANDS[name]).register(app)
    command: Any = get_command(app)
    yield f".SS mbpack {_escaped(name)}"
    yield _escaped(" ".join((command.help or "").split()))
    for param in command.params:
        if param.name != "help":
            yield from _param(param)
    yield ".PP"
    yield _escaped("Exit codes: " + "; ".join(exit_codes(name)) + ".")
    yield from (".PP", ".nf", *(_escaped(example) for example in HELP[name].examples), ".fi")


def _param(param: Any) -> Iterator[str]:
    metavar = param.metavar or param.name.upper().replace("_", "-")
    if param.param_type_name == "argument":
        yield from _entry(metavar, getattr(param, "help", None) or "")
        return
    names = ", ".join(sorted([*param.opts, *param.secondary_opts], key=len))
    text = param.help or ""
    if not param.is_flag and param.default is not None and not callable(param.default):
        text += f" [default: {param.default}]"
    yield from _entry(names if param.is_flag else f"{names} {metavar}", text)


def _entry(head: str, text: str) -> Iterator[str]:
    yield from (".TP", rf"\fB{_escaped(head)}\fR", _escaped(text) or r"\&")


def _escaped(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main() -> int:
    """Write the page, or with ``--check`` say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the page is not current")
    check = parser.parse_args().check
    text = page()
    if check:
        return int(not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.name}, {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
