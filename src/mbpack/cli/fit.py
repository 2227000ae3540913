"""`mbpack fit`: does it fit, and what must change so that it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError, is_script, split_arguments
from mbpack.cli.output import emit
from mbpack.cli.project import project_settings
from mbpack.cli.session import Options, Unit, requests
from mbpack.config.context import ContextError, Given, check_value
from mbpack.report.columns import printable

if TYPE_CHECKING:
    from mbpack.engine.doctor import Request
    from mbpack.engine.fitting import Fitted, Wanted
    from mbpack.facts.gpus import Gpu
    from mbpack.facts.shapes import Shape


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fit")(fit)


def fit(
    inputs: Annotated[list[str] | None, typer.Argument(metavar="[FILE | RECIPE] [KEY=VALUE...]", show_default=False)] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe that the file overrides, or to estimate alone.")] = None,
    bridge: Annotated[str | None, typer.Option(help="Megatron-Bridge release, such as 0.6 or 0.6.2.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Number of GPUs.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Kind of GPU: h100-80gb, h200, b200, gb200, a100-80gb ...")] = None,
    seq_length: Annotated[int | None, typer.Option(help="Length of a row in tokens, instead of the configuration's.")] = None,
    hf_config: Annotated[str | None, typer.Option(help="config.json of the model, for one that no recipe names.")] = None,
    max_length: Annotated[bool, typer.Option("--max-length", help="Also say the longest row that fits.")] = False,
    search: Annotated[bool, typer.Option("--search/--no-search", help="Look for topologies that fit.")] = True,
    explain: Annotated[
        str | None, typer.Option(help="Explain a row (formula, proof, numbers), or what a setting would change.")
    ] = None,
    output_format: Annotated[str, typer.Option("--format", metavar=choice(TEXT_JSON), help="How it is printed.")] = "text",
    json_output: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> int:
    """Estimate the GPU memory of a run: does it fit, what would save memory, which topologies fit."""
    from mbpack.memory.sizes import NotModelled

    try:
        check_choice("--format", output_format, TEXT_JSON)
        machine = json_output or output_format == "json"
        if machine and explain is not None:
            raise InputError("--explain prints text; the JSON report has formula, proof and bytes of every row")
        request, name = _request(inputs or [], recipe, bridge, gpus)
        wanted = _wanted(gpus, gpu, seq_length, hf_config, search and explain is None, max_length)
        found = _answer(request, wanted)
        return _print(found, name, explain, machine)
    except (InputError, ContextError, NotModelled) as error:
        print(f"mbpack fit: {printable(' '.join(str(error).splitlines()))}", file=sys.stderr)
        return 2


def _answer(request: Request, wanted: Wanted) -> Fitted:
    from mbpack.engine.fitting import fit as answer

    return answer(request, wanted)


def _request(arguments: list[str], recipe: str | None, bridge: str | None, gpus: int | None) -> tuple[Request, str]:
    """The one configuration to estimate, and what it is called."""
    if bridge is not None:
        check_value("bridge", bridge, "--bridge")
    if gpus is not None and not 0 < gpus <= 1_000_000:
        raise InputError(f"--gpus {gpus}: a number of GPUs is expected")
    project, _ = project_settings()
    recipe, arguments = _recipe(arguments, recipe, bridge or project.bridge)
    inputs = split_arguments(arguments)
    if len(inputs.paths) > 1 and any(is_script(path) for path, _ in inputs.paths):
        raise InputError("name one launch script, or files that are layers of one configuration")
    if not inputs.paths and recipe is None and project.recipe is None:
        raise InputError("name a file, a launch script, or a recipe (--recipe NAME)")
    flags = Given(bridge=bridge, recipe=recipe, gpus=gpus)
    options = Options(flags=flags, project=project, overrides=tuple(inputs.overrides))
    found = list(requests(Unit(tuple(path for path, _ in inputs.paths)), options))
    if len(found) > 1:
        raise InputError(f"{inputs.paths[0][0]}: {len(found)} launch commands; estimate one: name its file and recipe")
    name = " + ".join(path for path, _ in inputs.paths) or recipe or project.recipe or "configuration"
    return found[0], name


def _recipe(arguments: list[str], recipe: str | None, bridge: str | None) -> tuple[str | None, list[str]]:
    """A first argument that is no file but the name of a recipe counts as --recipe."""
    if recipe is not None or not arguments:
        return recipe, arguments
    import os

    first = arguments[0]
    if os.path.exists(first) or not first.isidentifier():
        return recipe, arguments
    return first, arguments[1:]


def _wanted(gpus: int | None, gpu: str | None, length: int | None, config: str | None, search: bool, max_length: bool) -> Wanted:
    from mbpack.engine.fitting import Wanted

    if length is not None and not 0 < length <= 1 << 30:
        raise InputError(f"--seq-length {length}: a number of tokens is expected")
    return Wanted(
        gpus=gpus,
        gpu=_gpu(gpu) if gpu is not None else None,
        length=length,
        shape=_shape(config) if config is not None else None,
        search=search,
        max_length=max_length,
    )


def _gpu(name: str) -> Gpu:
    from mbpack.facts.gpus import GPUS, find_gpu

    found = find_gpu(name)
    if found is None:
        raise InputError(f"--gpu {name}: not one of {', '.join(GPUS)}")
    return found


def _shape(path: str) -> Shape:
    import json

    from mbpack.memory.hf_config import read_config

    try:
        with open(path, "rb") as stream:
            data = json.loads(stream.read(1 << 24))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None
    return read_config(data, path)


def _show(found: Fitted, name: str) -> None:
    """The answer as text; on a terminal the breakdown is a table with bars."""
    from mbpack.report.fit import head, render, rest
    from mbpack.report.style import style_for

    style = style_for()
    if not style.colour:
        emit(render(found, style, name))
        return
    from mbpack.cli.fit_table import show

    emit(head(found, style, name))
    show(found, style.width)
    emit(rest(found, style))


def _print(found: Fitted, name: str, explain: str | None, as_json: bool) -> int:
    from mbpack.memory.verdict import Verdict

    if explain is not None:
        from mbpack.memory.terms import TERMS
        from mbpack.report.fit import explain as page

        text = page(found, explain)
        if text is None:
            raise InputError(f"--explain {explain}: no row and no setting is called so; rows are {', '.join(TERMS)}")
        emit(text)
        return 0
    if as_json:
        import json

        from mbpack.report.fit_json import fit_data

        emit(json.dumps(fit_data(found, name), indent=2), machine=True)
    else:
        _show(found, name)
    return 1 if found.estimate.verdict in (Verdict.NOT, Verdict.UNLIKELY) else 0
