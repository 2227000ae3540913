"""Defaults from ``[tool.mbpack]`` in the nearest pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mbpack.config.context import ContextError, Given, check_value

_CONTEXT = ("bridge", "recipe", "gpus", "launcher", "step", "nodes")


def project_settings(start: Path | None = None) -> tuple[Given, dict[str, Any]]:
    """Context values and rule selection (``select``, ``ignore``) of the nearest pyproject.toml.

    Raises:
        ContextError: the table has a key or value that cannot be used.
    """
    folder = (start or Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        path = candidate / "pyproject.toml"
        if path.is_file():
            table = _table(path)
            return (_given(path, table), table) if table is not None else (Given(), {})
        if (candidate / ".git").exists():
            break
    return Given(), {}


def _table(path: Path) -> dict[str, Any] | None:
    text = path.read_bytes()
    if b"tool.mbpack" not in text:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # the same parser, for Python 3.10
    try:
        table = tomllib.loads(text.decode("utf-8")).get("tool", {}).get("mbpack", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ContextError(f"{path}: not valid TOML: {error}") from None
    return table if isinstance(table, dict) else {}


def _given(path: Path, table: dict[str, Any]) -> Given:
    values = {}
    for name, value in table.items():
        if name in ("select", "ignore"):
            if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
                raise ContextError(f"{path}: tool.mbpack.{name} must be a list of rule names")
            continue
        if name not in _CONTEXT:
            raise ContextError(f"{path}: tool.mbpack.{name} is not known; use {', '.join((*_CONTEXT, 'select', 'ignore'))}")
        values[name] = check_value(name, str(value), f"{path}: tool.mbpack")
    return Given(**values)
