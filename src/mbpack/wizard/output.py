"""Preview and writing: a unified diff, and a write that either happens whole or not at all."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from mbpack.config.writing import write_atomically


class OutputError(Exception):
    """A file that cannot be read or written; the message is one line."""


def existing(path: str) -> str | None:
    """The text of a file, None where there is none.

    Raises:
        OutputError: it exists and cannot be read as text.
    """
    try:
        return Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise OutputError(f"{path}: is no UTF-8 text") from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror or error}") from None


def preview(path: str, old: str | None, new: str) -> list[str]:
    """What writing changes, as the lines of a unified diff; a new file is all additions."""
    before = [] if old is None else old.splitlines(keepends=True)
    name = path if old is not None else "/dev/null"
    lines = difflib.unified_diff(before, new.splitlines(keepends=True), name, path)
    return [line.rstrip("\r\n") for line in lines]


def check_target(path: str) -> None:
    """Refuse a path that no file can have, before anything is asked.

    Raises:
        OutputError: it is a directory, or there is no folder for it.
    """
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a directory; name a file in it")
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise OutputError(f"{path}: cannot be written: there is no folder {folder}")


def write(path: str, text: str) -> None:
    """Write a file at once; see :func:`mbpack.config.writing.write_atomically`.

    Raises:
        OutputError: the folder does not exist or cannot be written; nothing is left behind.
    """
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
