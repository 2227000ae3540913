"""Python programs that make a configuration: read, never executed.

What cannot be followed leaves the keys it touches unknown.
"""

from __future__ import annotations

from mbpack.config.python.machine import Command
from mbpack.config.python.program import PythonError
from mbpack.config.python.reading import Made, Variant, read_program

__all__ = ["Command", "Made", "PythonError", "Variant", "read_program"]
