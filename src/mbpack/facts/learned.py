"""What `mbpack learn` read from a user's own Megatron-Bridge: field lists of one version and the names of its recipes, kept in the user's cache.

A learned version takes the place of what mbpack ships for it.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any

from msgspec import Struct

#: Of the file; another number is not read.
FORMAT = 1


class Learned(Struct, frozen=True):
    """One version as it was read.

    ``classes``: name -> [import path, kind, {field: [type, default, init]}]. ``recipes``: name -> module.
    """

    format: int
    patch: str
    origin: str
    when: str
    sections: dict[str, list[Any]]
    classes: dict[str, tuple[str, str, dict[str, list[Any]]]]
    recipes: dict[str, str] = {}


def cache_folder() -> str:
    """Where learned versions lie: MBPACK_CACHE_DIR, else mbpack in the user's cache."""
    own = os.environ.get("MBPACK_CACHE_DIR")
    if own:
        return own
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "mbpack")


def path_of(patch: str) -> str:
    """The file of a version."""
    return os.path.join(cache_folder(), f"learned-{re.sub(r'[^A-Za-z0-9.]', '-', patch)}.json")


def find(patch: str) -> Learned | None:
    """The learned version, None where nobody learned it or the file cannot be used."""
    return _read(path_of(patch)) if patch else None


@functools.lru_cache(maxsize=8)
def _read(path: str) -> Learned | None:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return None
    import msgspec

    try:
        found = msgspec.json.decode(text, type=Learned)
    except msgspec.MsgspecError:
        return None
    return found if found.format == FORMAT else None


def forget_read() -> None:
    """Read files anew: somebody wrote one."""
    _read.cache_clear()
