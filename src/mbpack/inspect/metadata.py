"""The packing metadata file: one JSON list of objects, although it is called ``.jsonl``."""

from __future__ import annotations

import math
import os

from mbpack.config.evidence import Metadata
from mbpack.inspect.parquet import one_line

#: A metadata file has a few hundred bytes a preparation.
MAX_BYTES = 8 << 20


def _finite(text: str) -> float | None:
    """A number, None for one that no report could show."""
    value = float(text)
    return value if math.isfinite(value) else None


def read_metadata(path: str) -> Metadata:
    """Read a metadata file; one that is missing or no JSON list of objects says so."""
    import json  # most runs read none

    try:
        if os.path.getsize(path) > MAX_BYTES:
            return Metadata(path, entries=None, problem="too large for packing metadata")
        with open(path, "rb") as file:
            found = json.loads(file.read(), parse_float=_finite, parse_constant=lambda _: None)
    except FileNotFoundError:
        return Metadata(path, exists=False, entries=None)
    except (OSError, ValueError, RecursionError) as error:
        return Metadata(path, entries=None, problem=f"not JSON: {one_line(error)}")
    if not isinstance(found, list):
        kind = {dict: "an object", str: "text", bool: "true or false"}.get(type(found), "a number or null")
        return Metadata(path, entries=None, problem=f"holds {kind}, not a list")
    if not all(isinstance(entry, dict) for entry in found):
        return Metadata(path, entries=None, problem="holds something other than objects")
    return Metadata(path, entries=tuple(found))
