"""What `doctor` does with ``--fix``, ``--unsafe-fixes`` and ``--diff``: files mended in place, arguments printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from mbpack.cli.inputs import InputError, NothingHere
from mbpack.cli.session import Options, Unit, is_foreign, requests, tell_left_out, warn
from mbpack.config.context import ContextError
from mbpack.config.document import Document
from mbpack.config.writing import write_atomically
from mbpack.engine.doctor import Request
from mbpack.fix.diff import unified
from mbpack.fix.mend import Mended, mend
from mbpack.fix.summary import changed_arguments, dropped_arguments, lines
from mbpack.rules.internal import NOT_BRIDGE


def fix_units(units: Sequence[Unit], options: Options, unsafe: bool, diff: bool, backup: bool) -> int:
    """Mend every configuration and say what was done.

    Returns the exit code: 0 when no error is left (with ``diff``: nothing would change), 1 otherwise, 2 when an input
    could not be used, 70 when a rule raised.
    """
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
                code = max(code, _finish(request, mended, diff, backup, quiet=len(units) > 1))
                files += mended.changed
                fixes += mended.gone if mended.done else 0
                total += mended.before.errors + mended.before.warnings
        except NothingHere as error:
            if not unit.found:
                warn(str(error))
                code = max(code, 2)
        except (InputError, ContextError) as error:
            warn(str(error))
            code = max(code, 2)
    tell_left_out(left_out, options.skip_foreign)
    if len(units) > 1:
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


def _finish(request: Request, mended: Mended, diff: bool, backup: bool, quiet: bool) -> int:
    """Write or show one configuration; ``quiet`` says nothing about those without changes and errors."""
    piped = any(document.path == "-" for document in mended.state.documents)
    if diff:
        for before, after in zip(mended.start.documents, mended.state.documents, strict=True):
            _print_bytes(unified(before.path or "-", before.encode(before.text), after.encode(after.text)))
    else:
        write_all(mended, backup)
    arguments = changed_arguments(mended, request.launch is None)
    dropped = dropped_arguments(mended)
    stream = sys.stderr if diff or piped or arguments or dropped else sys.stdout
    if not quiet or mended.done or mended.after.errors:
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


def _print_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
