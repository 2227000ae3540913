"""From command-line arguments to documents: files, directories, globs, stdin, and KEY=VALUE overrides."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mbpack.config.document import Document, parse

_OVERRIDE = re.compile(r"(?:\+\+|\+|~)?[A-Za-z_][\w.@/-]*=|~[A-Za-z_][\w.]*$")
_YAML = (".yaml", ".yml")
#: Names under which a checkpoint keeps its configuration, best first.
RUN_CONFIGS = ("run_config.yaml", "run_config.yml")


class InputError(Exception):
    """An input that cannot be used; the message is one line: what, where, how to mend it."""


@dataclass(slots=True)
class Inputs:
    """What the arguments name: files in order, and overrides in order."""

    paths: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)


def split_arguments(arguments: Sequence[str]) -> Inputs:
    """Tell files from KEY=VALUE overrides; an existing file always counts as a file."""
    inputs = Inputs()
    for argument in arguments:
        if _OVERRIDE.match(argument) and not os.path.exists(argument):
            inputs.overrides.append(argument)
        else:
            inputs.paths.extend(_expand(argument))
    return inputs


def _expand(argument: str) -> Iterator[str]:
    if argument == "-" or os.path.isfile(argument):
        yield argument
    elif os.path.isdir(argument):
        yield from _directory(Path(argument))
    elif any(sign in argument for sign in "*?["):
        found = sorted(glob.glob(argument, recursive=True))
        if not found:
            raise InputError(f"{argument}: no file matches")
        for name in found:
            if os.path.isfile(name):
                yield name
    else:
        raise InputError(f"{argument}: no such file or directory")


def _directory(path: Path) -> Iterator[str]:
    """The configuration of a checkpoint directory, else every YAML file below the directory."""
    for name in RUN_CONFIGS:
        if (path / name).is_file():
            yield str(path / name)
            return
    latest = sorted(path.glob("iter_*/run_config.yaml"))
    if latest:
        yield str(latest[-1])
        return
    found = sorted(str(name) for suffix in _YAML for name in path.rglob(f"*{suffix}") if name.is_file())
    if not found:
        raise InputError(f"{path}: no run_config.yaml and no YAML file in this directory")
    yield from found


def read(path: str) -> Document:
    """Read and parse one file, or stdin for ``-``.

    Raises:
        InputError: the file cannot be read.
    """
    if path == "-":
        return parse(sys.stdin.buffer.read(), "-")
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return parse(data, path)
