"""`mbpack doctor`: every problem of a configuration at once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from mbpack.cli.inputs import InputError, Inputs, is_notebook, is_program, is_script, split_arguments
from mbpack.cli.output import emit, write_report
from mbpack.cli.project import project_settings
from mbpack.cli.session import Options, Report, Unit, reports, tell_left_out, warn
from mbpack.config.context import ContextError, Given, check_value
from mbpack.engine.check import Selection, check_names

if TYPE_CHECKING:
    import typer

FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "junit")


def register(app: typer.Typer) -> None:
    """Add the command."""
    global typer  # the option declarations below need it, a call with plain arguments does not
    import typer

    app.command("doctor")(doctor)


def doctor(
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILES...] [KEY=VALUE...]", show_default=False)] = None,
    bridge: Annotated[str | None, typer.Option(help="Megatron-Bridge release, such as 0.6 or 0.6.2.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe that the file overrides.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Number of GPUs.")] = None,
    launcher: Annotated[str | None, typer.Option(metavar="[run_recipe|script]", help="What starts the training.")] = None,
    step: Annotated[str | None, typer.Option(help="Step function, such as vlm_step.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Kind of GPU, such as h100 or b200.")] = None,
    skip_foreign: Annotated[
        bool, typer.Option("--skip-foreign", help="Say nothing of named files that are no Megatron-Bridge configurations.")
    ] = False,
    merge: Annotated[bool, typer.Option("--merge", help="Treat the files as layers of one configuration.")] = False,
    select: Annotated[str | None, typer.Option(help="Only these rules: codes, slugs or topics, comma separated.")] = None,
    ignore: Annotated[str | None, typer.Option(help="Not these rules.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    output_format: Annotated[str, typer.Option("--format", metavar=f"[{'|'.join(FORMATS)}]", help="How it is printed.")] = "text",
    output: Annotated[str | None, typer.Option(help="Write the report to a file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors and warnings, and nothing else.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again whenever a file changes, until Ctrl-C.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also the notes that are the same on nearly every run of a release.")
    ] = False,
    statistics: Annotated[bool, typer.Option("--statistics", help="Count findings per rule.")] = False,
    baseline: Annotated[str | None, typer.Option(help="Report only what this baseline file does not hold.")] = None,
    write_baseline: Annotated[str | None, typer.Option(help="Write today's findings to a baseline file.")] = None,
    show_resolved: Annotated[
        bool, typer.Option("--show-resolved", help="Print the configuration as it will be, each value with its origin.")
    ] = False,
    inspect: Annotated[bool, typer.Option("--inspect", help="Read every row of packed data that is reachable.")] = False,
    environment: Annotated[
        bool, typer.Option("--environment", help="Environment variables are those of this process; otherwise they are unknown.")
    ] = False,
    lengths: Annotated[
        str | None, typer.Option(help="Lengths of the training rows (see `mbpack lengths`), for the rules that need them.")
    ] = None,
    show_candidates: Annotated[
        bool, typer.Option("--show-candidates", help="List the recipes that a file without one may stand on.")
    ] = False,
    write_context: Annotated[
        bool, typer.Option("--write-context", help="Write the flags given into the file, as a `# mbpack:` comment.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply safe fixes.")] = False,
    unsafe_fixes: Annotated[bool, typer.Option("--unsafe-fixes", help="Apply unsafe fixes too.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change; exit 1 when something would.")] = False,
    backup: Annotated[bool, typer.Option("--backup", help="Keep the original beside a fixed file.")] = False,
) -> int:
    """Check override files, saved run_config.yaml files, checkpoint directories, launch scripts, Python programs, or a recipe alone."""
    if watch:
        given = dict(locals())
        from mbpack.cli.watch import again_and_again

        return again_and_again(doctor, given)
    try:
        flags = _flags(bridge, recipe, gpus, launcher, step, nodes, gpu)
        project, table = project_settings()
        selection = Selection(_names(select, table.get("select")), _names(ignore, table.get("ignore")))
        check_names(selection)
        if output_format not in FORMATS:
            raise InputError(f"--format {output_format} is not known; use {', '.join(FORMATS)}{_near(output_format)}")
        if output_format != "text" and (statistics or show_resolved):
            raise InputError(f"{'--statistics' if statistics else '--show-resolved'} prints text; leave out --format")
        inputs = split_arguments(files or [])
        _check_targets(inputs, output, write_baseline)
        units = _units(inputs, flags, merge, skip_foreign)
        if write_context:
            from mbpack.cli.write_context import write_context as write

            for path in write(units, flags):
                warn(f"{path}: its comment says what was given")
        environ = dict(os.environ) if environment else None
        if fix or unsafe_fixes or diff:
            from mbpack.cli.fixing import fix_and_report

            asked = Options(
                flags=flags,
                project=project,
                selection=selection,
                overrides=tuple(inputs.overrides),
                output_format=output_format,
                environ=environ,
                skip_foreign=skip_foreign,
                quiet=quiet,
            )
            return fix_and_report(units, asked, output, strict, unsafe_fixes, diff, backup)
        from mbpack.report.style import Style, style_for

        options = Options(
            verbose=verbose,
            quiet=quiet,
            flags=flags,
            project=project,
            selection=selection,
            overrides=tuple(inputs.overrides),
            environ=environ,
            output_format=output_format,
            style=Style() if output else style_for(),
            baseline=_baseline(baseline),
            marks=write_baseline is not None,
            show_resolved=show_resolved,
            show_candidates=show_candidates,
            inspect=inspect,
            skip_foreign=skip_foreign,
            one_of_many=len(units) > 1,
            lengths=_lengths(lengths),
        )
        found = list(reports(units, options))
    except (InputError, ContextError) as error:
        warn(str(error))
        return 2
    return _finish(found, options, strict, output, statistics, write_baseline)


def _finish(
    found: list[Report],
    options: Options,
    strict: bool,
    output: str | None,
    statistics: bool,
    write_baseline: str | None,
) -> int:
    for report in found:
        if report.problem is not None:
            warn(report.problem)
        if report.failed_rules:
            warn(f"{report.path or 'configuration'}: rule {', '.join(report.failed_rules)} failed: a defect of mbpack; report it")
    left_out = [report.path or "" for report in found if report.skipped]
    told = [path for path in left_out if not (is_script(path) or is_program(path) or is_notebook(path))]
    tell_left_out(told, options.skip_foreign or options.quiet)
    shown = [report for report in found if report.fragment is not None]
    problems = [(report.path, report.problem) for report in found if report.problem is not None]
    text = _statistics(shown) if statistics and options.output_format == "text" else _render(shown, options, problems, strict)
    try:
        if write_baseline is not None:
            from mbpack.report.baseline import dump

            write_report(write_baseline, dump(mark for report in shown for mark in report.fingerprints))
        if output not in (None, "-"):
            write_report(output, text + "\n" if text else "")
        elif text:
            emit(text, machine=options.output_format != "text")
    except InputError as error:
        warn(str(error))
        return 2
    if any(report.failed for report in found):
        return 70
    if any(report.problem is not None for report in found):
        return 2
    bad = any(report.errors or (strict and report.warnings) for report in found)
    return 1 if bad and write_baseline is None else 0


def _render(shown: list[Report], options: Options, problems: Sequence[tuple[str | None, str]], strict: bool) -> str:
    fragments = [report.fragment for report in shown if report.fragment != ""]
    if options.show_resolved:
        return "\n\n".join(fragments)
    if options.output_format == "text":
        from mbpack.report.text import summary

        text = "\n\n".join(fragments) if any("\n" in part for part in fragments) else "\n".join(fragments)
        if len(shown) > 1 and not options.quiet:
            counts = [(report.errors, report.warnings) for report in shown]
            text += "\n\n" + summary(counts, options.style)
        return text
    return machine_report(fragments, options.output_format, problems, strict)


def machine_report(data: list[Any], output_format: str, problems: Sequence[tuple[str | None, str]], strict: bool) -> str:
    """A report for machines on configurations, and on inputs that could not be used (path, message)."""
    from importlib import import_module

    from mbpack.report.json import Problem

    render: Callable[..., str] = import_module(f"mbpack.report.{output_format}").render
    return render(data, [Problem(*problem) for problem in problems], strict)


def _statistics(shown: list[Report]) -> str:
    counts: Counter[str] = Counter()
    for report in shown:
        counts.update(report.counts)
    width = len(str(max(counts.values(), default=0)))
    return "\n".join(f"{number:>{width}}  {name}" for name, number in counts.most_common()) or "no findings"


def _check_targets(inputs: Inputs, *targets: str | None) -> None:
    """Refuse to write a report over a configuration."""
    for target in targets:
        if target is None or target == "-" or not os.path.exists(target):
            continue
        if any(os.path.exists(path) and os.path.samefile(path, target) for path, _ in inputs.paths):
            raise InputError(f"{target}: is one of the files to check; write the report somewhere else")


def _near(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, FORMATS, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _units(inputs: Inputs, flags: Given, merge: bool, skip_foreign: bool) -> list[Unit]:
    if not inputs.paths:
        if flags.recipe is None:
            raise InputError("name a file, a directory or a launch script, or a recipe with --recipe NAME")
        return [Unit(())]
    if merge:
        return [Unit(tuple(path for path, _ in inputs.paths))]
    return [Unit((path,), found or skip_foreign) for path, found in inputs.paths]


def _baseline(path: str | None) -> frozenset[str]:
    if path is None:
        return frozenset()
    from mbpack.report.baseline import BaselineError, load

    try:
        return load(path)
    except BaselineError as error:
        raise InputError(str(error)) from None


def _lengths(path: str | None) -> Mapping[int, int] | None:
    if path is None:
        return None
    from mbpack.engine.data_lengths import read_lengths
    from mbpack.plan._optional import PlanError

    try:
        return read_lengths([path])
    except PlanError as error:
        raise InputError(f"--lengths {error}") from None


def _names(text: str | None, listed: list[str] | None) -> tuple[str, ...]:
    if text is None:
        return tuple(listed or ())
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _flags(
    bridge: str | None,
    recipe: str | None,
    gpus: int | None,
    launcher: str | None,
    step: str | None,
    nodes: int | None,
    gpu: str | None,
) -> Given:
    if gpu is not None:
        gpu = check_value("gpu", gpu, "--gpu")
    if bridge is not None:
        check_value("bridge", bridge, "--bridge")
    if launcher is not None:
        check_value("launcher", launcher, "--launcher")
    for name, number in (("gpus", gpus), ("nodes", nodes)):
        if number is not None:
            check_value(name, str(number), f"--{name}")
    return Given(bridge, recipe, gpus, launcher, step, nodes, gpu)
