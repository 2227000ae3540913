"""From command-line arguments to documents: files, directories, globs, stdin, and KEY=VALUE overrides."""

from __future__ import annotations

import codecs
import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from mbpack.config.document import MAX_BYTES, Document, parse
from mbpack.facts.patterns import lazy

if TYPE_CHECKING:
    from pathlib import Path

_OVERRIDE = lazy(r"(?:\+\+|\+|~)?[A-Za-z_][\w.@/-]*[ \t]*=|~[A-Za-z_][\w.]*$")
_YAML = (".yaml", ".yml")
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
_NOTEBOOK = ".ipynb"
#: What a program and a launch script say somewhere when they are about Megatron-Bridge.
_PROGRAM_MARKS = (b"megatron.bridge", b"nemo_run")
_SCRIPT_MARKS = (b"megatron", b"Megatron", b"run_recipe", b"run_script.py", b"setup_experiment.py")
#: Folders that hold other people's programs.
_NOT_ENTERED = frozenset({"site-packages", "node_modules", "__pycache__", "venv"})
#: Names under which a checkpoint keeps its configuration, best first.
RUN_CONFIGS = ("run_config.yaml", "run_config.yml")


#: More than a configuration may have: a device that never ends is not read to its end.
_ENOUGH = MAX_BYTES + 1
#: Bytes that are asked for first: room for all that may come costs a third of a millisecond a file.
_USUAL = 1 << 16


#: Where `--watch` keeps the names of what is read; None where nobody watches.
watched: set[str] | None = None


class InputError(Exception):
    """An input that cannot be used; the message is one line: what, where, how to mend it."""


class NothingHere(InputError):
    """A script or program without a configuration: an error where it was named, nothing where it was met in a directory."""


class Inputs(Struct):
    """What the arguments name: files (path, whether it was met in a directory or glob) and overrides, in order."""

    paths: list[tuple[str, bool]] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)


def split_arguments(arguments: Sequence[str]) -> Inputs:
    """Tell files from KEY=VALUE overrides; an existing file always counts as a file.

    A name that does not exist is kept: reading it reports it, beside what the other files say.

    Raises:
        InputError: a pattern or directory holds nothing, or stdin is named twice.
    """
    inputs = Inputs()
    if list(arguments).count("-") > 1:
        raise InputError("- (stdin) can be read only once")
    for argument in arguments:
        if _OVERRIDE.match(argument) and not os.path.exists(argument):
            inputs.overrides.append(argument)
        else:
            inputs.paths.extend(_expand(argument))
    return inputs


def _expand(argument: str) -> Iterator[tuple[str, bool]]:
    if argument == "-" or os.path.isfile(argument):
        yield argument, False
    elif os.path.isdir(argument):
        from pathlib import Path

        yield from _directory(Path(argument))
    elif any(sign in argument for sign in "*?["):
        found = [name for name in sorted(glob.glob(argument, recursive=True)) if os.path.isfile(name)]
        if not found:
            raise InputError(f"{argument}: no file matches")
        yield from ((name, True) for name in found)
    else:
        yield argument, False


def _directory(path: Path) -> Iterator[tuple[str, bool]]:
    """The configuration of a checkpoint directory, else every YAML file, launch script and training program below it."""
    for name in RUN_CONFIGS:
        if (path / name).is_file():
            yield str(path / name), False
            return
    saved = sorted(path.glob("iter_*/run_config.yaml"))
    if saved:
        yield str(saved[-1]), False
        return
    found = sorted(str(name) for suffix in _YAML for name in path.rglob(f"*{suffix}") if name.is_file())
    found += sorted(_others(path))
    if not found and not os.access(path, os.R_OK | os.X_OK):
        raise InputError(f"{path}: cannot be read: Permission denied")
    if not found:
        raise InputError(
            f"{path}: no run_config.yaml, no YAML file, launch script or program of Megatron-Bridge in this directory"
        )
    yield from ((name, True) for name in found)


def _others(path: Path) -> Iterator[str]:
    """Launch scripts and programs below a directory, as far as their text speaks of Megatron-Bridge at all."""
    kinds = ((".py", _PROGRAM_MARKS), (_NOTEBOOK, _PROGRAM_MARKS + _SCRIPT_MARKS), *((end, _SCRIPT_MARKS) for end in _SCRIPTS))
    for suffix, marks in kinds:
        for name in path.rglob(f"*{suffix}"):
            parts = name.relative_to(path).parts
            if any(part in _NOT_ENTERED or part.startswith(".") for part in parts[:-1]) or not name.is_file():
                continue
            try:
                with open(name, "rb") as stream:
                    data = stream.read(_ENOUGH)
            except OSError:
                continue
            if any(mark in data for mark in marks):
                yield str(name)


def is_script(path: str) -> bool:
    """Whether a file is a launch script, by its name."""
    return path.endswith(_SCRIPTS)


def is_program(path: str) -> bool:
    """Whether a file is a Python program, by its name."""
    return path.endswith(".py")


def is_notebook(path: str) -> bool:
    """Whether a file is a Jupyter notebook, by its name."""
    return path.endswith(_NOTEBOOK)


def read(path: str) -> Document:
    """Read and parse one file, or stdin for ``-``.

    Raises:
        InputError: the file cannot be read.
    """
    if watched is not None:
        watched.add(path)
    try:
        if path == "-" and sys.stdin is None:
            raise InputError("-: standard input is closed")
        if path == "-":
            data = sys.stdin.buffer.read(_ENOUGH)
        else:
            with open(path, "rb") as stream:
                data = stream.read(_USUAL)
                if len(data) == _USUAL:
                    data += stream.read(_ENOUGH)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or directory{_hint(path)}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if is_program(path):
        bom = data.startswith(codecs.BOM_UTF8)
        return Document(path, data[3 * bom :].decode("utf-8", "surrogateescape"), bom=bom)
    if is_script(path) or is_notebook(path):
        return Document(path, data.decode("utf-8", "replace"))
    return parse(data, path)


def _hint(path: str) -> str:
    """What may have been meant by a name that does not exist."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        stems = {os.path.splitext(other)[0]: other for other in sorted(os.listdir(folder or "."))[:5000]}
    except OSError:
        stems = {}
    near = get_close_matches(os.path.splitext(name)[0], stems, n=1, cutoff=0.7)
    if near:
        return f"; did you mean {os.path.join(folder, stems[near[0]])}?"
    return "; an override is written KEY=VALUE" if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", path) else ""
