"""Packed rows of 0.3 in ``.npy`` files: an array of Python objects, which is a pickle. The one place that reads it.

A pickle can run any code. This one may build arrays, lists, dicts and numbers, and nothing else.
"""

from __future__ import annotations

import pickle
import tokenize
from typing import Any

#: Modules of numpy by their names before and after 2.0, and what of them an array of plain rows needs.
_PARTS = {
    "numpy": ("ndarray", "dtype"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
}

#: What reading a header raises that is damaged: it is evaluated as a Python literal.
_DAMAGED = (ValueError, EOFError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError)


class NpyError(ValueError):
    """A file that holds no packed rows, is damaged, or would run code; the message is one line."""


class _Plain(pickle.Unpickler):
    """An unpickler that builds nothing but data."""

    def find_class(self, module: str, name: str) -> Any:
        if name in _PARTS.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it would run {module}.{name}")


def read_rows(path: str) -> Any:
    """The rows of a file: an array (or one object) of whatever it holds, in practice mappings of lists.

    Raises:
        NpyError: see there.
        OSError: the file cannot be opened.
        ImportError: numpy is not installed.
    """
    with open(path, "rb") as stream:
        skip_header(stream)
        try:
            return _Plain(stream).load()
        except Exception as error:  # a damaged pickle fails in as many ways as there are objects to build
            raise NpyError(f"not packed data: the file would run code or is damaged ({_one_line(error)})") from None


def skip_header(stream: Any) -> tuple[int, ...]:
    """Read the header of an ``.npy`` file; returns the shape it names.

    Raises:
        NpyError: there is none.
        ImportError: numpy is not installed.
    """
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, _ = read(stream)
    except _DAMAGED as error:
        raise NpyError(_one_line(error)) from None
    return tuple(shape)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
