"""The JSON Schema of `mbpack doctor --format json`, schema_version 1.

Fields may be added within a version; a field that changes its meaning or goes makes a new one.
"""

from __future__ import annotations

from typing import Any

from mbpack.report.json import SCHEMA_VERSION

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_ANY: dict[str, Any] = {}


def report_schema() -> dict[str, Any]:
    """The schema of the whole report."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"mbpack report {SCHEMA_VERSION}",
        **_object(
            schema_version={"const": SCHEMA_VERSION},
            mbpack=_TEXT,
            files={"type": "array", "items": _file()},
            problems=_list(_object(path=_maybe(_TEXT), message=_TEXT)),
            summary=_object(files=_NUMBER, errors=_NUMBER, warnings=_NUMBER),
        ),
    }


def _object(**properties: Any) -> dict[str, Any]:
    """An object that has all of these, and may have more."""
    return {"type": "object", "required": list(properties), "properties": properties}


def _maybe(held: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [held, {"type": "null"}]}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _file() -> dict[str, Any]:
    return _object(
        path=_maybe(_TEXT),
        context=_maybe(
            _object(
                bridge=_TEXT,
                recipe=_maybe(_TEXT),
                gpus=_maybe(_NUMBER),
                gpu=_maybe(_TEXT),
                launcher={"enum": ["run_recipe", "script", None]},
                sources={"type": "object", "additionalProperties": _TEXT},
            )
        ),
        mode={"enum": ["offline", "in_batch", "energon", "global_batch", "none", "unknown"]},
        verdict={"enum": ["rejected", "accepted", "unknown"]},
        candidates=_maybe(
            _object(
                recipes=_NUMBER,
                rejected=_NUMBER,
                accepted=_NUMBER,
                unknown=_NUMBER,
                few=_list(_object(code=_TEXT, slug=_TEXT, message=_TEXT, recipes=_NUMBER)),
            )
        ),
        findings=_list(_finding()),
        not_checked=_list(_object(code=_TEXT, needs=_list(_TEXT))),
        derived={"type": "object", "additionalProperties": _NUMBER},
        upstream_tests=_list(_TEXT),
    )


def _finding() -> dict[str, Any]:
    place = {name: _maybe(_NUMBER) for name in ("line", "column")}
    return _object(
        code={"type": "string", "pattern": "^[A-Z]{3}[0-9]{3}$"},
        slug=_TEXT,
        severity={"enum": ["error", "warning", "info"]},
        consequence={"enum": ["rejected", "crash", "silent", "ignored", "waste", "note"]},
        when={"enum": ["load", "validate", "data", "first-step", "evaluation", "resume", "always"]},
        message=_TEXT,
        why=_TEXT,
        key=_maybe(_TEXT),
        **place,
        end_column=_maybe(_NUMBER),
        related=_list(_object(key=_TEXT, **place, value=_ANY)),
        fix=_maybe(_object(safety={"enum": ["safe", "unsafe"]}, title=_TEXT, edits=_list(_edit()))),
        fires_first={"type": "boolean"},
        holds_for=_maybe(_object(recipes=_NUMBER, of=_NUMBER, such_as=_list(_TEXT), not_with=_list(_TEXT))),
    )


def _edit() -> dict[str, Any]:
    return _object(op=_TEXT, key=_TEXT, value=_ANY, to=_maybe(_TEXT))
