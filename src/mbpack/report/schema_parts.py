"""Pieces of which the published JSON Schemas are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: The dialect of every schema that mbpack publishes.
DIALECT = "https://json-schema.org/draft/2020-12/schema"

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NUMBER = {"type": "number"}
YES_NO = {"type": "boolean"}
ANY: dict[str, Any] = {}


def record(optional: dict[str, Any] | None = None, /, **properties: Any) -> dict[str, Any]:
    """An object that has all of these, perhaps the optional ones, and may have more."""
    return {"type": "object", "required": list(properties), "properties": {**properties, **(optional or {})}}


def maybe(held: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    return {"anyOf": [held, {"type": "null"}]}


def array(of: dict[str, Any]) -> dict[str, Any]:
    """A list of any length."""
    return {"type": "array", "items": of}


def mapping(of: dict[str, Any]) -> dict[str, Any]:
    """An object with keys of any name."""
    return {"type": "object", "additionalProperties": of}


def word(*words: str | None) -> dict[str, Any]:
    """One of a fixed list."""
    return {"enum": list(words)}


def root(name: str, version: int, parts: dict[str, Any]) -> dict[str, Any]:
    """A whole report: its version, then what it holds."""
    return {"$schema": DIALECT, "title": f"mbpack {name} {version}", **record(schema_version={"const": version}, **parts)}


def words_or_more(words: Sequence[str]) -> dict[str, Any]:
    """A word that later releases may add to; those of today are examples."""
    return {"type": "string", "examples": list(words)}
