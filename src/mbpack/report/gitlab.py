"""GitLab's code quality report: a JSON list of issues."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from mbpack.report.json import Problem, dumps
from mbpack.report.places import in_repository

_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def render(files: Sequence[dict[str, Any]], problems: Sequence[Problem] = (), strict: bool = False) -> str:
    """Every finding that has a file; the same finding has the same fingerprint on every run."""
    seen: dict[str, int] = {}
    return dumps(
        [_issue(path, finding, seen) for data in files for finding in data["findings"] for path in [_path(data, finding)] if path]
    )


def _path(data: dict[str, Any], finding: dict[str, Any]) -> str | None:
    path = finding.get("path", data["path"])
    return in_repository(path) if path and path != "-" else None


def _issue(path: str, finding: dict[str, Any], seen: dict[str, int]) -> dict[str, Any]:
    mark = "\0".join((path, finding["code"], finding["key"] or "", finding["message"]))
    count = seen[mark] = seen.get(mark, 0) + 1
    return {
        "description": f"{finding['code']}: {finding['message']}",
        "check_name": finding["slug"],
        "fingerprint": hashlib.sha256(f"{mark}\0{count}".encode("utf-8", "replace")).hexdigest(),
        "severity": "blocker" if finding["fires_first"] else _SEVERITIES[finding["severity"]],
        "location": {"path": path, "lines": {"begin": finding["line"] or 1}},
    }
