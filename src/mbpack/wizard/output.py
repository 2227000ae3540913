"""Preview and writing: a unified diff, and a write that either happens whole or not at all."""

from __future__ import annotations

import difflib
import os
from contextlib import suppress
from pathlib import Path


class OutputError(Exception):
    """A file that cannot be read or written; the message is one line."""


def existing(path: str) -> str | None:
    """The text of a file, None where there is none.

    Raises:
        OutputError: it exists and cannot be read as text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise OutputError(f"{path}: exists and is no UTF-8 text; choose another name with --output") from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror or error}") from None


def preview(path: str, old: str | None, new: str) -> list[str]:
    """What writing changes, as the lines of a unified diff; a new file is all additions."""
    before = [] if old is None else old.splitlines(keepends=True)
    name = path if old is not None else "/dev/null"
    lines = difflib.unified_diff(before, new.splitlines(keepends=True), name, path)
    return [line.rstrip("\n") for line in lines]


def write(path: str, text: str) -> None:
    """Write a file at once: a temporary file beside it takes its place, with the mode it had; a symlink stays one.

    Raises:
        OutputError: the folder does not exist or cannot be written; nothing is left behind.
    """
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(FileNotFoundError, OSError):
            os.unlink(temporary)
