"""What `mbpack learn` read from a user's own Megatron-Bridge: field lists and recipes of one version, kept in the user's cache.

A learned version takes the place of what mbpack ships for it. Its recipes lie in a file of their own, one a line, of which a
reader parses the one it asks for.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any

from msgspec import Struct

#: Of the file; another number is not read.
FORMAT = 2


class Learned(Struct, frozen=True):
    """One version as it was read.

    ``classes``: name -> [import path, kind, {field: [type, default, init]}]. ``recipes``: name -> module. ``aliases``: other
    names of recipes.
    """

    format: int
    patch: str
    origin: str
    when: str
    sections: dict[str, list[Any]]
    classes: dict[str, tuple[str, str, dict[str, list[Any]]]]
    recipes: dict[str, str] = {}
    aliases: dict[str, str] = {}


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


def recipes_path_of(patch: str) -> str:
    """The file of a version's recipes."""
    return path_of(patch).removesuffix(".json") + "-recipes.tsv"


def recipe(patch: str, name: str) -> dict[str, Any] | None:
    """What was learned of a recipe, by the name it is asked for, in the form of `mbpack.facts.recipes`.

    None where nobody learned the version, or nothing but the recipe's name.
    """
    own = find(patch)
    if own is None:
        return None
    data, wanted = _bytes(recipes_path_of(patch)), own.aliases.get(name, name)
    start = data.find(f"\n{wanted}\t".encode())
    if start < 0:
        return None
    import msgspec

    start = data.index(b"\t", start)
    end = data.find(b"\n", start)
    try:
        found = msgspec.json.decode(data[start : end if end >= 0 else None])
    except msgspec.MsgspecError:
        return None
    return found if isinstance(found, dict) else None


def find(patch: str) -> Learned | None:
    """The learned version, None where nobody learned it or the file cannot be used."""
    return _read(path_of(patch)) if patch else None


@functools.lru_cache(maxsize=8)
def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


@functools.lru_cache(maxsize=8)
def _read(path: str) -> Learned | None:
    text = _bytes(path)
    if not text:
        return None
    import msgspec

    try:
        found = msgspec.json.decode(text, type=Learned)
    except msgspec.MsgspecError:
        return None
    return found if found.format == FORMAT else None


def forget_read() -> None:
    """Read files anew: somebody wrote one."""
    _bytes.cache_clear()
    _read.cache_clear()
