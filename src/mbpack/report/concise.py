"""One line a finding, `path:line:column: CODE message`: for editors, grep and problem matchers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mbpack.report.columns import printable
from mbpack.report.json import Problem


def render(files: Sequence[dict[str, Any]], problems: Sequence[Problem] = (), strict: bool = False) -> str:
    """A line for every finding of every file, notes included, as they stand in the report; stderr has what could not be used."""
    return "\n".join(_line(data, finding) for data in files for finding in data["findings"])


def _line(data: dict[str, Any], finding: dict[str, Any]) -> str:
    path = finding.get("path", data["path"]) or (data["context"] or {}).get("recipe") or "configuration"
    place = f"{'stdin' if path == '-' else path}:{finding['line'] or 1}:{finding['column'] or 1}"
    return printable(f"{place}: {finding['code']} {finding['severity']}: {' '.join(finding['message'].split())}")
