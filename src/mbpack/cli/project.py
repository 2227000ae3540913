"""Defaults from ``[tool.mbpack]`` in the nearest pyproject.toml."""

from __future__ import annotations

import os
import sys
from typing import Any

from msgspec.structs import replace

from mbpack.config.beside import find_beside
from mbpack.config.context import CONTEXT_NAMES, ContextError, Given, check_value

#: Parts of a table's name; the parser's time grows with their square.
_DEEPEST = 100


def project_settings() -> tuple[Given, dict[str, Any]]:
    """Context values and rule selection (``select``, ``ignore``) of the nearest pyproject.toml, and who knows what is installed.

    Raises:
        ContextError: the table has a key or value that cannot be used.
    """
    given, table = _nearest()
    return replace(given, beside=find_beside), table


def _nearest() -> tuple[Given, dict[str, Any]]:
    try:
        folder, below = os.path.realpath(os.getcwd()), ""
    except FileNotFoundError:  # somebody removed the directory
        return Given(), {}
    while folder != below:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(path):
            table = _table(path)
            return (_given(path, table), table) if table is not None else (Given(), {})
        if os.path.exists(os.path.join(folder, ".git")):
            break
        folder, below = os.path.dirname(folder), folder
    return Given(), {}


def _table(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise ContextError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not _may_have_table(text):
        return None
    if any(line.count(b".") > _DEEPEST for line in text.splitlines() if line.lstrip().startswith(b"[")):
        raise ContextError(f"{path}: a table name with more than {_DEEPEST} parts; this is no project file")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # the same parser, for Python 3.10
    try:
        tools = tomllib.loads(text.decode("utf-8")).get("tool", {})
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested without end
        raise ContextError(f"{path}: not valid TOML: {error}") from None
    table = tools.get("mbpack", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise ContextError(f"{path}: tool.mbpack must be a table")
    return table


def _may_have_table(text: bytes) -> bool:
    """Whether some line may begin or name the table: a header or a key with both names, or a header of `tool` alone."""
    if b"mbpack" not in text:
        return False
    for line in map(bytes.strip, text.splitlines()):
        if line[:1] == b"[":
            header = line.partition(b"#")[0]
            if b"\\" in header or (b"tool" in header and (b"mbpack" in header or b"." not in header)):
                return True
        elif line[:1] in (b"t", b'"', b"'") and (b"tool" in line or b"\\" in line.partition(b"=")[0]):
            return True
    return False


def _given(path: str, table: dict[str, Any]) -> Given:
    values = {}
    for name, value in table.items():
        if name in ("select", "ignore"):
            if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
                raise ContextError(f"{path}: tool.mbpack.{name} must be a list of rule names")
            continue
        if name not in CONTEXT_NAMES:
            raise ContextError(f"{path}: tool.mbpack.{name} is not known; use {', '.join((*CONTEXT_NAMES, 'select', 'ignore'))}")
        if isinstance(value, (list, dict)):
            raise ContextError(f"{path}: tool.mbpack.{name} must be a single value")
        values[name] = check_value(name, str(value), f"{path}: tool.mbpack")
    return Given(**values)
