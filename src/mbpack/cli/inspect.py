"""`mbpack inspect`: looks inside packed data on disk."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError, read
from mbpack.config.context import ContextError, Given, check_value
from mbpack.engine.packs import Intended, Looking, examine_configured, examine_packs
from mbpack.engine.result import Result
from mbpack.inspect.parquet import NeedsPyarrow, pyarrow
from mbpack.inspect.summary import summarise
from mbpack.inspect.targets import TargetError, find_targets


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("inspect")(inspect)


def inspect(
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATHS...]", show_default=False)] = None,
    config: Annotated[str | None, typer.Option(help="Configuration that uses the packs; alone, it names them.")] = None,
    bridge: Annotated[str | None, typer.Option(help="Megatron-Bridge release, such as 0.6 or 0.6.2.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe the configuration overrides.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Number of GPUs.")] = None,
    launcher: Annotated[str | None, typer.Option(metavar="[run_recipe|script]", help="What starts the training.")] = None,
    cp: Annotated[int | None, typer.Option(min=1, help="Context parallel size the packs are meant for.")] = None,
    tp: Annotated[int | None, typer.Option(min=1, help="Tensor parallel size.")] = None,
    sp: Annotated[bool | None, typer.Option("--sp/--no-sp", help="Sequence parallel.")] = None,
    gbs: Annotated[int | None, typer.Option(min=1, help="Global batch size, in packs.")] = None,
    eos: Annotated[int | None, typer.Option(min=0, help="End-of-sequence token; else the usual last token.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    output_format: Annotated[str, typer.Option("--format", metavar=choice(TEXT_JSON), help="How it is printed.")] = "text",
) -> int:
    """Look inside packed data: files, directories or patterns of parquet (or .npy) packs, and metadata files."""
    try:
        check_choice("--format", output_format, TEXT_JSON)
        flags = Given(
            None if bridge is None else check_value("bridge", bridge, "--bridge"),
            recipe,
            None if gpus is None else check_value("gpus", str(gpus), "--gpus"),
            None if launcher is None else check_value("launcher", launcher, "--launcher"),
        )
        intended, looking = Intended(tp, cp, sp, gbs), Looking(eos)
        results = _examine(paths or [], config, flags, intended, looking)
    except (InputError, TargetError, ContextError, NeedsPyarrow) as error:
        print(f"mbpack inspect: {error}", file=sys.stderr)
        return 2
    print(_json(results) if output_format == "json" else "\n\n".join(map(_text, results)))
    if any(result.failed_rules for result in results):
        return 70
    return 1 if any(result.errors or (strict and result.warnings) for result in results) else 0


def _examine(paths: list[str], config: str | None, flags: Given, intended: Intended, looking: Looking) -> list[Result]:
    targets = [target for path in paths for target in find_targets(path)]
    if any(not path.lower().endswith(".npy") for target in targets for path in target.paths.values()):
        pyarrow()
    if config is None:
        if not targets:
            raise InputError("nothing to inspect: give a path, or --config FILE")
        return [examine_packs(target, flags, intended, looking) for target in targets]
    document = read(config)
    if document.root is None:
        raise InputError(f"{config}: cannot be parsed; `mbpack doctor {config}` says where")
    if targets:
        return [examine_configured(document, flags, target, looking, target.label) for target in targets]
    pyarrow()
    result = examine_configured(document, flags, None, looking, config)
    if result.run is None or not result.run.evidence.packs:
        raise InputError(f"{config}: its packed data cannot be seen from here; give their path")
    return [result]


def _json(results: list[Result]) -> str:
    from mbpack.report.json import file_data, render

    files = []
    for result in results:
        data = file_data(result)
        if result.run is not None:
            data["packs"] = summarise(result.run.evidence, result.run)
        files.append(data)
    return render(files)


def _text(result: Result) -> str:
    from mbpack.report.packs import text

    assert result.run is not None
    notes = []
    for packs in result.run.evidence.packs.values():
        unread = packs.statistics is None and not any(shard.problem for shard in packs.shards)
        if unread and packs.path.lower().endswith(".npy"):
            notes.append(f"{packs.path}: rows not read, that needs numpy: pip install 'mbpack[plan]'")
    if result.run.settings.layers == () and not any(f.rule.topic == "align" for f in result.findings):
        notes.append("alignment is checked with --cp (and --tp --sp)")
    return text(result.path or "", summarise(result.run.evidence, result.run), result.findings, notes)
