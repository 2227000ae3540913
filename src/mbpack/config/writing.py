"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import stat
import tempfile


def write_atomically(path: str, data: bytes) -> None:
    """Replace (or create) a file in one step: a symbolic link stays a link, the file mode stays.

    What is no file, such as ``/dev/stdout`` or a named pipe, is written into.

    Raises:
        OSError: the folder or file cannot be written; the old file is then untouched.
    """
    real = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            stream.write(data)
        return
    folder = os.path.dirname(real) or "."
    mode = stat.S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else None
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(real)}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is None:
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
