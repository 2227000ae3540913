"""Runs one sample the way the command line would, and says what is wrong with the answer, if anything."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mbpack.cli.main import COMMANDS, USAGE, run

from .samples import Sample, files_below

LIMIT = 5.0  # a file without a recipe is judged over hundreds
"""Longest answer, in seconds."""


@contextmanager
def workshop() -> Iterator[Path]:
    """An empty folder to work in, without a project above it; exceptions come out as they are."""
    before, environ = os.getcwd(), dict(os.environ)
    folder = Path(tempfile.mkdtemp(prefix="mbpack-fuzz-")).resolve()
    os.environ.update(MBPACK_TRACEBACK="1", COLUMNS="80")
    os.environ.pop("GITHUB_ACTIONS", None)
    try:
        os.chdir(folder)
        yield folder
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environ)
        shutil.rmtree(folder, ignore_errors=True)


def problem(sample: Sample, folder: Path, limit: float = LIMIT) -> str | None:
    """What is wrong with the answer to a sample: one line that names the class of the defect, or None.

    Runs in ``folder`` (the working folder, see :func:`workshop`) and leaves it empty.
    """
    found, seconds = _once(sample, folder)
    if found is None and seconds > limit:  # processor seconds, since a busy machine is no defect; slow means slow again
        found, again = _once(sample, folder)
        if found is None and min(seconds, again) > limit:
            return f"slow: {sample.calls[0][0]} took {min(seconds, again):.1f} s"
    return found


def _once(sample: Sample, folder: Path) -> tuple[str | None, float]:
    clear(folder)
    (folder / ".git").mkdir()
    for name, data in sample.files.items():
        path = os.path.join(os.fsencode(folder), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data)
    started = time.process_time()
    found = _calls(sample, folder)
    seconds = time.process_time() - started
    clear(folder)
    return found, seconds / len(sample.calls)


def clear(folder: Path) -> None:
    for entry in list(os.scandir(os.fsencode(folder))):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _calls(sample: Sample, folder: Path) -> str | None:
    for number, argv in enumerate(sample.calls):
        before = files_below(folder) if sample.steady and number else {}
        try:
            code, out, err = call(argv, sample.stdin)
        except Exception as error:
            return f"raised {type(error).__name__} at {_place(error)}"
        found = _wrong(argv, code, out, err)
        if found is not None:
            return found
        if before and files_below(folder) != before:
            return f"{' '.join(argv)}: the second run still changes something"
    return None


def _place(error: BaseException) -> str:
    """Module and function of the innermost frame inside mbpack."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/mbpack/" in frame.filename.replace(os.sep, "/")] or frames[-1:]
    return f"{own[-1].filename.replace(os.sep, '/').rpartition('/mbpack/')[2]}:{own[-1].name}" if own else "?"


def call(argv: tuple[str, ...], stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command line. Exceptions come out (MBPACK_TRACEBACK is set)."""
    streams = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    sys.stdout = io.TextIOWrapper(out, "utf-8", errors="backslashreplace", write_through=True)
    sys.stderr = io.TextIOWrapper(err, "utf-8", errors="backslashreplace", write_through=True)
    try:
        plain = argv[0] == "doctor" and not any(word.startswith("-") and word != "-" for word in argv[1:])
        code = run(argv) if plain else _prepared(argv)
        sys.stdout.flush()
        sys.stderr.flush()
        return code, out.getvalue().decode("utf-8"), err.getvalue().decode("utf-8")
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams


def _prepared(argv: tuple[str, ...]) -> int:
    """As :func:`mbpack.cli.main.run`, with the option parser built only once a command: that takes longer than the work."""
    try:
        return int(_command(argv[0]).main(args=list(argv[1:]), prog_name="mbpack", standalone_mode=False) or 0)
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else 1
    except OSError as error:
        print(f"mbpack: {error}", file=sys.stderr)
        return USAGE
    except Exception as error:
        show = getattr(error, "show", None)  # click's own errors: usage
        if show is None:
            raise
        show()
        return USAGE


@lru_cache(maxsize=16)
def _command(name: str) -> Any:
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    import_module(COMMANDS[name]).register(app)
    return typer.main.get_command(app)


def _wrong(argv: tuple[str, ...], code: int, out: str, err: str) -> str | None:
    name = argv[0]
    if code not in (0, 1, 2):
        return f"{name}: exit code {code}"
    if "INT101" in out or "internal error" in out + err or "Traceback (most recent call last)" in out + err:
        return f"{name}: an internal error is reported: {_internal(out, err)}"
    if code == 2 and not err.strip():
        return f"{name}: exit code 2 without a word"
    if name == "doctor":
        return _unreadable(argv, out)
    if out and {"--json", "--format"} & set(argv):  # of plan and inspect, on standard output
        try:
            json.loads(out, parse_constant=_refuse)
        except ValueError:
            return f"{name}: the JSON cannot be read"
    return None


def _internal(out: str, err: str) -> str:
    lines = [line for line in (out + "\n" + err).splitlines() if "INT101" in line or "internal error" in line]
    return " ".join(lines[0].split())[:160] if lines else "traceback"


def _unreadable(argv: tuple[str, ...], out: str) -> str | None:
    """Whether a report is no valid document of its format, or steers the terminal."""
    output_format = argv[argv.index("--format") + 1] if "--format" in argv else "text"
    try:
        if output_format in ("json", "sarif") and out:
            json.loads(out, parse_constant=_refuse)
        elif output_format == "junit" and out:
            ElementTree.fromstring(out.encode("utf-8"))
        elif output_format == "text" and "\x1b" in out and "-" not in argv and not {"--fix", "--show-resolved"} & set(argv):
            return "doctor: the text report holds an escape character"
    except (ValueError, ElementTree.ParseError) as error:
        return f"doctor: the {output_format} report cannot be read: {type(error).__name__}"
    return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
