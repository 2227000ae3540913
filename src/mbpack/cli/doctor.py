"""`mbpack doctor`: every problem of a configuration at once."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from mbpack.cli.inputs import InputError, read, split_arguments
from mbpack.config.context import ContextError, Given, check_value
from mbpack.engine.check import Selection
from mbpack.engine.doctor import examine
from mbpack.engine.result import Result


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    files: Annotated[Optional[list[str]], typer.Argument(metavar="[FILES...] [KEY=VALUE...]", show_default=False)] = None,
    bridge: Annotated[Optional[str], typer.Option(help="Megatron-Bridge release, such as 0.6 or 0.6.2.")] = None,
    recipe: Annotated[Optional[str], typer.Option(help="Recipe the file overrides.")] = None,
    gpus: Annotated[Optional[int], typer.Option(help="Number of GPUs.")] = None,
    launcher: Annotated[Optional[str], typer.Option(help="run_recipe or script.")] = None,
    step: Annotated[Optional[str], typer.Option(help="Step function, such as vlm_step.")] = None,
    nodes: Annotated[Optional[int], typer.Option(help="Number of nodes.")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Treat the files as layers of one configuration.")] = False,
    select: Annotated[Optional[str], typer.Option(help="Only these rules: codes, slugs or topics, comma separated.")] = None,
    ignore: Annotated[Optional[str], typer.Option(help="Not these rules.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    output_format: Annotated[str, typer.Option("--format", help="text, json, sarif, github or junit.")] = "text",
    output: Annotated[Optional[str], typer.Option(help="Write the report to a file.")] = None,
) -> int:
    """Check override files, saved run_config.yaml files, checkpoint directories or a recipe with overrides."""
    try:
        flags = _flags(bridge, recipe, gpus, launcher, step, nodes)
        inputs = split_arguments(files or [])
        results = _examine_all(inputs.paths, inputs.overrides, flags, merge, Selection(_names(select), _names(ignore)))
    except (InputError, ContextError) as error:
        print(f"mbpack doctor: {error}", file=sys.stderr)
        return 2
    from mbpack.report.json import render

    text = render(results)
    print(text)
    if any(result.failed_rules for result in results):
        return 70
    bad = sum(result.errors + (result.warnings if strict else 0) for result in results)
    return 1 if bad else 0


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _flags(
    bridge: str | None, recipe: str | None, gpus: int | None, launcher: str | None, step: str | None, nodes: int | None
) -> Given:
    if bridge is not None:
        check_value("bridge", bridge, "--bridge")
    if launcher is not None:
        check_value("launcher", launcher, "--launcher")
    for name, number in (("gpus", gpus), ("nodes", nodes)):
        if number is not None:
            check_value(name, str(number), f"--{name}")
    return Given(bridge, recipe, gpus, launcher, step, nodes)


def _examine_all(paths: list[str], overrides: list[str], flags: Given, merge: bool, selection: Selection) -> list[Result]:
    results = []
    for path in paths:
        document = read(path)
        try:
            results.append(examine([document], flags, None, selection, path=path))
        except ContextError as error:
            raise ContextError(f"{path}: {error}") from None
    return results
