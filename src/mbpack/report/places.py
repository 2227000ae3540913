"""Paths in reports for machines: as the reader of a checkout names the files, whatever directory the command ran in."""

from __future__ import annotations

import os
from functools import cache

#: What stands in the place of a file for a configuration that is none: readers such as GitHub refuse a result without a place.
STDIN, ARGUMENTS = "stdin", "command-line"


def in_repository(path: str | None) -> str:
    """A file's path relative to the root of the git checkout that the command runs in; outside of one as it is given."""
    if path is None:
        return ARGUMENTS
    if path == "-":
        return STDIN
    root = _root(os.getcwd()) if not _gone() else None
    if root is None:
        return path
    full = os.path.abspath(path)
    inside = full.startswith(root.rstrip(os.sep) + os.sep)
    return os.path.relpath(full, root).replace(os.sep, "/") if inside else full


def _gone() -> bool:
    """Whether somebody removed the directory."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


@cache
def _root(folder: str) -> str | None:
    below = ""
    while folder != below:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        folder, below = os.path.dirname(folder), folder
    return None
