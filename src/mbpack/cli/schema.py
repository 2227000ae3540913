"""`mbpack schema`: JSON Schemas of what people write and of what mbpack prints."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mbpack.cli.output import emit

#: Files that people write, then the reports of the commands; see `mbpack.report.command_schemas`.
KINDS = ("overrides", "report", "explain", "init", "migrate", "list", "fit", "plan", "lengths", "inspect", "verify")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schema")(schema)


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=f"overrides: files that people write; report: the doctor's; or a command's: {', '.join(KINDS[2:])}.",
        ),
    ],
    bridge: Annotated[str, typer.Option(help="Megatron-Bridge release of the override files.")] = "0.6",
    output: Annotated[str | None, typer.Option(help="Write it to a file.")] = None,
) -> int:
    """Print a JSON Schema: of override files, for yaml-language-server and check-jsonschema, or of a command's JSON report."""
    from mbpack.config.context import ContextError, check_value
    from mbpack.config.writing import write_atomically
    from mbpack.facts.releases import parse_version
    from mbpack.report.json import dumps

    if kind not in KINDS:
        return _refuse(f"{kind!r} has no schema; use {', '.join(KINDS)}")
    try:
        check_value("bridge", bridge, "--bridge")
    except ContextError as error:
        return _refuse(str(error))
    if kind == "overrides":
        from mbpack.report.override_schema import override_schema

        text = dumps(override_schema(parse_version(bridge).release.name))
    else:
        from mbpack.report.command_schemas import SCHEMAS

        text = dumps(SCHEMAS[kind]())
    if output is None or output == "-":
        emit(text, machine=True)
        return 0
    try:
        write_atomically(output, (text + "\n").encode())
    except OSError as error:
        return _refuse(f"{output}: cannot be written: {error.strerror}")
    return 0


def _refuse(message: str) -> int:
    print(f"mbpack schema: {message}", file=sys.stderr)
    return 2
