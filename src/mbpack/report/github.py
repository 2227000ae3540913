"""GitHub Actions annotations: one workflow command per finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mbpack.report.columns import printable
from mbpack.report.json import Problem
from mbpack.report.places import in_repository

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(files: Sequence[dict[str, Any]], problems: Sequence[Problem] = (), strict: bool = False) -> str:
    """Annotations for every finding of every file, and for inputs that could not be used."""
    lines = [_annotation(data["path"], finding) for data in files for finding in data["findings"]]
    return "\n".join([*lines, *(f"::error title=mbpack::{_escape(problem.message, False)}" for problem in problems)])


def _annotation(path: str | None, finding: dict[str, Any]) -> str:
    properties = {"title": f"{finding['code']} {finding['slug']}"}
    path = finding.get("path", path)
    if path and path != "-":
        properties = {"file": in_repository(path), **properties}
        if finding["line"]:
            properties |= {"line": str(finding["line"]), "col": str(finding["column"])}
    text = finding["message"]
    if finding["fix"]:
        text += f"\nfix: {finding['fix']['title']}"
    text = "\n".join(printable(line) for line in text.split("\n"))  # logs are read on terminals too
    shown = ",".join(f"{name}={_escape(value, True)}" for name, value in properties.items())
    return f"::{_LEVELS[finding['severity']]} {shown}::{_escape(text, False)}"


def _escape(text: str, in_property: bool) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text
