"""`mbpack doctor --write-context`: the flags go into the files, so that the next call needs none."""

from __future__ import annotations

from collections.abc import Sequence

from mbpack.cli.inputs import InputError, is_script, read
from mbpack.cli.session import Unit
from mbpack.config.context import Given
from mbpack.config.context_comment import readable, with_context
from mbpack.config.writing import write_atomically


def write_context(units: Sequence[Unit], flags: Given) -> list[str]:
    """Write the flags into the lowest file of every configuration that was named; returns the files changed.

    Raises:
        InputError: no flag is given, or a file cannot take the comment; files before it are written.
    """
    given = {name: value for name in ("bridge", "recipe", "gpus", "launcher") if (value := getattr(flags, name)) is not None}
    if not given:
        raise InputError(
            "--write-context writes --bridge, --recipe, --gpus and --launcher into the file; give at least one of them"
        )
    return [path for unit in units if unit.paths and not unit.found for path in [_write(unit.paths[0], given)] if path]


def _write(path: str, given: dict[str, object]) -> str | None:
    if path == "-" or is_script(path):
        raise InputError(f"{path}: --write-context writes into YAML files only")
    document = read(path)
    text = with_context(document, given)
    if text == document.text:
        return None
    if not readable(document, text):
        raise InputError(f"{path}: cannot take a comment: its YAML is not readable")
    try:
        write_atomically(path, document.encode(text))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path
