"""`mbpack skill`: the skill for coding agents, printed or installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mbpack.cli.output import emit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("skill")(skill)


def skill(
    install: Annotated[str | None, typer.Option(help="Folder of skills; the skill is written to mbpack/SKILL.md in it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that differs.")] = False,
) -> int:
    """Print the skill that tells a coding agent when and how to use mbpack, or install it into a folder of skills."""
    from mbpack.config.writing import write_atomically
    from mbpack.skill import NAME, text

    content = text()
    if install is None:
        emit(content.rstrip("\n"))
        return 0
    target = Path(install) / NAME / "SKILL.md"
    try:
        if target.exists() and target.read_text(encoding="utf-8", errors="replace") != content and not force:
            print(f"mbpack skill: {target} exists and differs; --force replaces it", file=sys.stderr)
            return 2
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(target), content.encode())
    except OSError as error:
        print(f"mbpack skill: {target}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    print(f"Wrote {target}")
    return 0
