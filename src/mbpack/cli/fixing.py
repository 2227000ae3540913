"""What `doctor` does with ``--fix``, ``--unsafe-fixes`` and ``--diff``: files mended in place, arguments printed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from mbpack.cli.inputs import InputError, NothingHere
from mbpack.cli.output import emit, write_report
from mbpack.cli.session import Options, Unit, is_foreign, requests, tell_left_out, warn
from mbpack.config.context import ContextError
from mbpack.config.document import Document
from mbpack.config.writing import write_atomically
from mbpack.engine.doctor import Request
from mbpack.fix.diff import painted, unified
from mbpack.fix.mend import Mended, mend
from mbpack.fix.summary import changed_arguments, dropped_arguments, lines
from mbpack.rules.internal import NOT_BRIDGE


class Outcome(Struct):
    """What there is to report of a run for machines: configurations as they are after it, and inputs that could not be used."""

    files: list[dict[str, Any]] = field(default_factory=list)
    problems: list[tuple[str | None, str]] = field(default_factory=list)


def fix_and_report(
    units: Sequence[Unit], options: Options, output: str | None, strict: bool, unsafe: bool, diff: bool, backup: bool
) -> int:
    """Mend every configuration, and report as ``--format`` and ``--output`` say; the exit code is that of :func:`fix_units`.

    A report for machines holds the findings that are left (with ``diff``: that are there), what was or would be fixed, and the
    differences; what people read then goes to stderr.

    Raises:
        InputError: stdin, which goes on to stdout, and a report for machines on stdout at once; or the report cannot be written.
    """
    machine, aside = options.output_format != "text", output not in (None, "-")
    if not machine and not aside:
        return fix_units(units, options, unsafe, diff, backup)
    if any("-" in unit.paths for unit in units) and not aside:
        raise InputError(
            f"-: what is mended goes to standard output; write the {options.output_format} report with --output FILE"
        )
    outcome = Outcome()
    from_stdin = any("-" in unit.paths for unit in units)
    held = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="surrogateescape", newline="", write_through=True)
    with contextlib.nullcontext() if from_stdin else contextlib.redirect_stdout(sys.stderr if machine else held):
        code = fix_units(units, options, unsafe, diff, backup, outcome)
    if machine:
        from mbpack.cli.doctor import machine_report

        text = machine_report(outcome.files, options.output_format, outcome.problems, strict) + "\n"
    else:
        held.flush()
        text = held.buffer.getvalue().decode("utf-8", "replace")
    if aside and output is not None:
        write_report(output, text)
    else:
        emit(text.rstrip("\n"), machine=True)
    return code


def _machine_data(mended: Mended, diff: bool) -> dict[str, Any]:
    from mbpack.report.json import file_data

    changes = [
        unified(before.path or "-", before.encode(before.text), after.encode(after.text)).decode("utf-8", "replace")
        for before, after in zip(mended.start.documents, mended.state.documents, strict=True)
    ]
    done = [{"code": made.finding.rule.code, "title": made.fix.title} for made in mended.done]
    left = mended.before if diff else mended.after
    return file_data(left) | {"fixes": done, "diff": "".join(changes)}


def fix_units(
    units: Sequence[Unit], options: Options, unsafe: bool, diff: bool, backup: bool, outcome: Outcome | None = None
) -> int:
    """Mend every configuration and say what was done; ``outcome`` is filled for a report.

    Returns the exit code: 0 when no error is left (with ``diff``: nothing would change), 1 otherwise, 2 when an input
    could not be used, 70 when a rule raised.
    """
    outcome = outcome or Outcome()
    machine = options.output_format != "text"
    code = files = fixes = total = 0
    left_out: list[str] = []
    for unit in units:
        try:
            for request in list(requests(unit, options)):
                mended = mend(request, unsafe)
                if is_foreign(mended.before):
                    if unit.found:
                        left_out.append(request.path or "")
                    else:
                        code = max(code, _decline(request, mended, diff))
                    continue
                if machine:
                    outcome.files.append(_machine_data(mended, diff))
                code = max(code, _finish(request, mended, diff, backup, options.quiet or len(units) > 1, machine, options.quiet))
                files += mended.changed
                fixes += mended.gone if mended.done else 0
                total += mended.before.errors + mended.before.warnings
        except NothingHere as error:
            if not unit.found:
                warn(str(error))
                code = max(code, 2)
        except (InputError, ContextError) as error:
            warn(str(error))
            outcome.problems.append((unit.paths[0] if unit.paths else None, str(error)))
            code = max(code, 2)
    tell_left_out(left_out, options.skip_foreign or options.quiet)
    if len(units) > 1 and not options.quiet:
        verb = "to fix" if diff else "fixed"
        print(
            f"{fixes} of {total} findings {verb}, in {files} of {len(units)} configurations",
            file=sys.stderr if diff else sys.stdout,
        )
    return code


def _decline(request: Request, mended: Mended, diff: bool) -> int:
    """One line about a file of another program; what came by stdin goes on as it is."""
    if not diff:
        write_all(mended, backup=False)
    message = next(finding.message for finding in mended.before.findings if finding.rule is NOT_BRIDGE)
    warn(f"{request.path}: left as it is: {message}")
    return 1


def _finish(request: Request, mended: Mended, diff: bool, backup: bool, quiet: bool, machine: bool, silent: bool = False) -> int:
    """Write or show one configuration; ``quiet`` says nothing about those without changes and errors, ``silent`` nothing about
    those without errors."""
    piped = any(document.path == "-" for document in mended.state.documents)
    if diff and machine:
        pass  # the report holds the difference
    elif diff:
        for before, after in zip(mended.start.documents, mended.state.documents, strict=True):
            print_diff(unified(before.path or "-", before.encode(before.text), after.encode(after.text)))
    else:
        write_all(mended, backup)
    arguments = changed_arguments(mended, request.launch is None)
    dropped = dropped_arguments(mended)
    stream = sys.stderr if diff or piped or arguments or dropped else sys.stdout
    if not quiet or (mended.done and not silent) or mended.after.errors:
        for line in lines(mended, "to fix" if diff else "fixed"):
            print(line, file=stream)
    if dropped:
        print(f"  no longer among the arguments: {' '.join(dropped)}", file=stream)
    if request.launch is not None and (arguments or dropped) and not diff:
        print(f"  not written: a script is not edited; put the arguments below into {request.path}", file=stream)
    if arguments:
        stream.flush()
        for argument in arguments:
            print(argument)
    sys.stdout.flush()
    if mended.after.failed_rules:
        return 70
    return int(mended.changed if diff else mended.after.errors > 0)


def write_all(mended: Mended, backup: bool) -> None:
    """Write the files that changed; the content of stdin goes to stdout, changed or not.

    Raises:
        InputError: a file cannot be written; those before it are.
    """
    for before, after in zip(mended.start.documents, mended.state.documents, strict=True):
        data = after.encode(after.text)
        if after.path == "-":
            _print_bytes(data)
        elif after.text != before.text and after.path is not None:
            write_file(after.path, before, data, backup)


def write_file(path: str, before: Document, data: bytes, backup: bool) -> None:
    """Replace one file; with ``backup``, its old content goes to a new file beside it.

    Raises:
        InputError: one of the two cannot be written, or the file changed since it was read.
    """
    try:
        with open(path, "rb") as stream:
            if stream.read() != before.encode(before.text):
                raise InputError(f"{path}: changed while it was examined; run again")
        if backup:
            _back_up(path)
        write_atomically(path, data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _back_up(path: str) -> None:
    import shutil

    number, name = 1, f"{path}.bak"
    while os.path.lexists(name):
        number += 1
        name = f"{path}.bak{number}"
    shutil.copy2(path, name)
    print(f"{path}: the original is kept as {name}", file=sys.stderr)


def print_diff(data: bytes) -> None:
    """Print a difference, in colour where that is wanted."""
    from mbpack.report.style import is_coloured

    _print_bytes(painted(data) if is_coloured(sys.stdout) else data)


def _print_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
