"""Packed rows of 0.3 in ``.npy`` files: an array of Python objects, which is a pickle. The one place that reads it.

A pickle can run any code, and numpy's own part of one can end the process when it is damaged. Here it may build lists, dicts and
numbers; what it says about arrays is kept as data and read as such afterwards.
"""

from __future__ import annotations

import math
import os
import pickle
import re
import tokenize
from typing import Any

from mbpack.config.memory import at_most

#: What the objects of a file may take, bytes: an integer takes two to five in the file, and 36 in a list. A damaged pickle may
#: ask for a table of 64 GB.
_MEMORY, _MEMORY_PER_BYTE = 128 << 20, 64

#: What reading a header raises that is damaged: it is evaluated as a Python literal.
_DAMAGED = (ValueError, EOFError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError)


class NpyError(ValueError):
    """A file that holds no packed rows, is damaged, or would run code; the message is one line."""


class _Dtype:
    """What a pickle says about the type of an array's elements; numpy is asked for plain numbers only."""

    _NUMBERS = re.compile(r"b1|[iu][1248]|f[248]")

    def __init__(self, code: Any = "", *_: Any) -> None:
        self.code, self.order = str(code), "<"

    def __setstate__(self, state: Any) -> None:
        self.order = ">" if state[1] == ">" else "<"

    def read(self, content: Any, shape: tuple[int, ...]) -> Any:
        """Bytes as an array of numbers."""
        import numpy as np

        if not self._NUMBERS.fullmatch(self.code):
            raise NpyError(f"an array of {self.code[:20] or 'nothing'} where numbers are needed")
        return np.frombuffer(content, dtype=f"{self.order}{self.code}").reshape(shape)


class _Array:
    """An array as a pickle describes it: shape, type, and its objects or bytes."""

    shape: tuple[int, ...] = (0,)
    dtype: _Dtype = _Dtype()
    content: Any = b""

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, _, self.content = state
        if not isinstance(self.dtype, _Dtype) or not all(type(size) is int and size >= 0 for size in self.shape):
            raise NpyError("an array without a shape or type")

    def elements(self) -> Any:
        """Its objects as a list, or its numbers as an array."""
        if not isinstance(self.content, list):
            return self.dtype.read(self.content, self.shape)
        if len(self.shape) > 1 or len(self.content) != math.prod(self.shape):
            raise NpyError(f"an array of shape {str(self.shape)[:40]}; rows come in one dimension")
        return self.content


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _scalar(dtype: _Dtype, content: bytes) -> Any:
    return dtype.read(content, ()).item()


def _frombuffer(content: Any, dtype: _Dtype, shape: Any, _: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, dtype, False, bytes(content)))
    return array


#: Where numpy keeps its parts before and after 2.0, and what stands here for those an array of plain rows needs.
_NUMPY = {"numpy", *(f"numpy.{core}.{module}" for core in ("core", "_core") for module in ("multiarray", "numeric"))}
_PARTS = {"ndarray": _Array, "dtype": _Dtype, "_reconstruct": _reconstruct, "scalar": _scalar, "_frombuffer": _frombuffer}


class _Plain(pickle.Unpickler):
    """An unpickler that builds nothing but data."""

    def find_class(self, module: str, name: str) -> Any:
        if module not in _NUMPY or name not in _PARTS:
            raise pickle.UnpicklingError(f"it would run {module}.{name}")
        return _PARTS[name]


def read_rows(path: str) -> list[Any]:
    """The rows of a file: whatever it holds, in practice mappings of lists or arrays of numbers.

    Raises:
        NpyError: see there.
        OSError: the file cannot be opened.
        ImportError: numpy is not installed.
    """
    with open(path, "rb") as stream, at_most(_MEMORY + _MEMORY_PER_BYTE * os.stat(path).st_size):
        skip_header(stream)
        try:
            found = _Plain(stream).load()
            return list(map(_row, found.elements())) if isinstance(found, _Array) else [_row(found)]
        except Exception as error:  # a damaged pickle fails in as many ways as there are objects to build
            raise NpyError(f"not packed data: the file would run code or is damaged ({_one_line(error)})") from None


def _row(row: Any) -> Any:
    """A row, with the elements of arrays for the arrays it maps to."""
    if not isinstance(row, dict):
        return row
    return {name: value.elements() if isinstance(value, _Array) else value for name, value in row.items()}


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
