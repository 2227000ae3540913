"""`mbpack migrate`: a configuration moved to another release."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.fixing import print_diff, write_file
from mbpack.cli.inputs import InputError, is_script, read, split_arguments
from mbpack.cli.output import emit
from mbpack.config.context import ContextError, Given
from mbpack.fix.diff import unified
from mbpack.fix.migrate import Migration, migrate
from mbpack.fix.migrate_json import migrate_data, one_data
from mbpack.fix.state import State


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("migrate")(command)


def command(
    inputs: Annotated[list[str], typer.Argument(metavar="FILES... | KEY=VALUE...", show_default=False)],
    to: Annotated[str, typer.Option("--to", help="Megatron-Bridge release to move to, such as 0.6.")],
    source: Annotated[str | None, typer.Option("--from", help="Release it was written for; else what it says or shows.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe that the file overrides.")] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show the changes, write nothing; exit 1 when something would change.")
    ] = False,
    output: Annotated[str | None, typer.Option(help="Write the result to another file.")] = None,
    backup: Annotated[bool, typer.Option("--backup", help="Keep the original beside the file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what is to be decided.")] = False,
    output_format: Annotated[
        str, typer.Option("--format", metavar=choice(TEXT_JSON), help="json: everything that is said, in one object.")
    ] = "text",
) -> int:
    """Move override files, run_config.yaml files or KEY=VALUE lists to another release, and say what to decide."""
    try:
        check_choice("--format", output_format, TEXT_JSON)
        machine = output_format == "json"
        given = split_arguments(inputs)
        if given.paths and given.overrides:
            raise InputError("give files or KEY=VALUE arguments, not both")
        if output is not None and len(given.paths) != 1:
            raise InputError("--output takes the result of exactly one file")
        states = [State((), tuple(given.overrides))] if given.overrides else []
        for path, _ in given.paths:
            states += _of_script(path) if is_script(path) else [State((read(path),))]
        code = 0
        files: list[dict[str, Any]] = []
        for state in states:
            made = _one(state, to, source, recipe)
            code = max(
                code, _report(made, diff, output, backup, files) if machine else _finish(made, diff, output, backup, quiet)
            )
        if machine:
            from mbpack.report.json import dumps

            emit(dumps(migrate_data(files)), machine=True)
        return code
    except (InputError, ContextError) as error:
        print(f"mbpack migrate: {error}", file=sys.stderr)
        return 2


def _of_script(path: str) -> list[State]:
    """The arguments of every launch command in a script; the script itself is never edited."""
    from mbpack.config.shell import ScriptError, read_script

    try:
        launches = read_script(read(path).text, path).launches
    except ScriptError as error:
        raise InputError(str(error)) from None
    if not launches:
        raise InputError(f"{path}: no launch command of Megatron-Bridge found in this script")
    return [State((), tuple(override.text for override in launch.overrides)) for launch in launches]


def _one(state: State, to: str, source: str | None, recipe: str | None) -> Migration:
    for document in state.documents:
        fatal = next((problem for problem in document.problems if problem.fatal), None)
        if fatal is not None:
            raise InputError(f"{document.path}, line {fatal.span.line}: {fatal.message}")
    try:
        return migrate(state, to, source, Given(recipe=recipe))
    except ContextError as error:
        raise InputError(f"{state.documents[0].path}: {error}" if state.documents else str(error)) from None


def _finish(made: Migration, diff: bool, output: str | None, backup: bool, quiet: bool) -> int:
    changed = made.state.texts != made.start.texts
    stream = sys.stdout
    if made.state.documents:
        before, after = made.start.documents[0], made.state.documents[0]
        data = after.encode(after.text)
        name = before.path or "-"
        if diff:
            print_diff(unified(name, before.encode(before.text), data))
            stream = sys.stderr
        elif output == "-" or (output is None and name == "-"):
            _print_bytes(data)
            stream = sys.stderr
        elif output is not None:
            _write(output, data)
        elif changed:
            write_file(name, before, data, backup)
    else:
        stream = sys.stderr
        for argument in made.state.overrides:
            print(argument)
    sys.stdout.flush()
    for line in _lines(made, diff, quiet):
        print(line, file=stream)
    return int(changed) if diff else 0


def _report(made: Migration, diff: bool, output: str | None, backup: bool, files: list[dict[str, Any]]) -> int:
    """Write as without a report, and add what there is to say to ``files``; the contents of stdin are only told."""
    written = None
    changed = made.state.texts != made.start.texts
    if made.state.documents and not diff:
        before, after = made.start.documents[0], made.state.documents[0]
        target = output if output is not None else before.path or "-"
        if output not in (None, "-"):
            _write(target, after.encode(after.text))
            written = target
        elif target != "-" and changed:
            write_file(target, before, after.encode(after.text), backup)
            written = target
    files.append(one_data(made, written))
    return int(changed) if diff else 0


def _lines(made: Migration, diff: bool, quiet: bool) -> Iterator[str]:
    if quiet and not made.decide:
        return
    name = (made.state.documents[0].path if made.state.documents else None) or "arguments"
    yield f"{'stdin' if name == '-' else name}: Megatron-Bridge {made.source} -> {made.target.text}"
    for title, texts in (
        ("would change" if diff else "changed", made.changed),
        ("to decide", made.decide),
        ("behaves differently", made.different),
    ):
        if quiet and title != "to decide":
            continue
        if texts:
            yield f"  {title}"
        for text in dict.fromkeys(texts):
            yield f"    - {text}"
    if quiet:
        return
    if not made.changed:
        yield "  nothing to change"
    if made.state.documents and name != "-":
        yield f"  next: mbpack doctor {name} --bridge {made.target.text}"


def _write(path: str, data: bytes) -> None:
    from mbpack.config.writing import write_atomically

    try:
        write_atomically(path, data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _print_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
