"""`mbpack report`: versions and a redacted configuration, for an issue."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mbpack.config.context import Given
    from mbpack.engine.result import Result


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILES...] [KEY=VALUE...]", show_default=False)] = None,
    bridge: Annotated[str | None, typer.Option(help="Megatron-Bridge release, such as 0.6 or 0.6.2.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe the configuration overrides.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Number of GPUs.")] = None,
    launcher: Annotated[str | None, typer.Option(help="run_recipe or script.")] = None,
) -> int:
    """Print versions and, of each file, a redacted configuration with the codes of its findings, as Markdown for an issue.

    Keys, numbers and words of Megatron-Bridge stay. Paths, names, hosts, tokens and comments do not. Read it before you send it.
    """
    from mbpack.cli.inputs import InputError
    from mbpack.cli.output import emit
    from mbpack.config.context import ContextError, Given, check_value
    from mbpack.report.columns import printable
    from mbpack.report.issue import issue

    try:
        for name, value in (("bridge", bridge), ("launcher", launcher), ("gpus", None if gpus is None else str(gpus))):
            if value is not None:
                check_value(name, value, f"--{name}")
        results = list(_results(files or [], Given(bridge, recipe, gpus, launcher)))
    except (InputError, ContextError) as error:
        print(f"mbpack report: {printable(' '.join(str(error).splitlines()))}", file=sys.stderr)
        return 2
    emit(issue(results))
    return 0


def _results(words: list[str], flags: Given) -> list[Result]:
    from mbpack.cli.inputs import split_arguments
    from mbpack.cli.session import Options, Unit, requests
    from mbpack.engine.doctor import judge

    inputs = split_arguments(words)
    options = Options(flags=flags, overrides=tuple(inputs.overrides))
    units = [Unit((path,)) for path, _ in inputs.paths]
    if not units and (flags.recipe is not None or inputs.overrides):
        units = [Unit(())]
    return [judge(request) for unit in units for request in requests(unit, options)]
