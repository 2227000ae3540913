"""`mbpack lsp`: the language server for editors."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lsp")(lsp)


def lsp() -> int:
    """Serve an editor over standard input and output: findings, hover, completion, quick fixes in YAML files and Python programs."""
    if find_spec("pygls") is None:
        print("mbpack lsp: needs the extra: pip install 'mbpack[lsp]'", file=sys.stderr)
        return 2
    from mbpack.cli.project import project_settings
    from mbpack.lsp.server import create

    create(project_settings()[0]).start_io()
    return 0
