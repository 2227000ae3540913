"""How commands print: whole reports, to terminals and readers of every kind, some of which stop reading."""

from __future__ import annotations

import os
import sys


def emit(text: str, machine: bool = False) -> None:
    """Print a report and a line end; a reader who has gone (``| head``) is no error.

    Reports for machines are UTF-8 whatever the locale says, as JSON and XML readers expect.
    """
    try:
        stream = getattr(sys.stdout, "buffer", None)
        if machine and stream is not None:
            sys.stdout.flush()
            stream.write((text + "\n").encode("utf-8", "replace"))
            stream.flush()
        else:
            print(text, flush=True)
    except BrokenPipeError:
        silence()


def write_report(path: str, text: str) -> None:
    """Write a report to a file, whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    from mbpack.cli.inputs import InputError
    from mbpack.config.writing import write_atomically

    try:
        write_atomically(path, text.encode("utf-8", "replace"))
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None


def tolerant() -> None:
    """Let characters that the terminal's encoding lacks be printed as escapes."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def silence() -> None:
    """Drop what is still to be printed, so that the interpreter does not complain when it leaves."""
    try:
        target = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # no stream, or none of the system's
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, target)
    os.close(nowhere)
