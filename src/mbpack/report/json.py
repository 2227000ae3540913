"""The machine-readable contract (schema_version 1)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mbpack import __version__
from mbpack.config.settings import ABSENT, Object, Origin, Setting
from mbpack.engine.features import test_commands
from mbpack.engine.result import NotChecked, Result
from mbpack.rules.base import Finding

SCHEMA_VERSION = 1


class Problem(NamedTuple):
    """An input that could not be used: its path (None where it has none) and why, in one line."""

    path: str | None
    message: str


#: Longest whole number written in decimal; Python refuses to convert much longer ones.
MAX_BITS = 4096


def render(files: Sequence[dict[str, Any]], problems: Sequence[Problem] = (), strict: bool = False) -> str:
    """Data of several configurations as one JSON object."""
    return dumps(payload(files, problems))


def dumps(data: Any) -> str:
    """Data as JSON that every reader takes: no NaN, and no half characters from the bytes of a broken file."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode("utf-8")


def payload(files: Sequence[dict[str, Any]], problems: Sequence[Problem] = ()) -> dict[str, Any]:
    """Data of several configurations as the contract has it."""
    severities = [finding["severity"] for data in files for finding in data["findings"]]
    return {
        "schema_version": SCHEMA_VERSION,
        "mbpack": __version__,
        "files": list(files),
        "problems": [problem._asdict() for problem in problems],
        "summary": {"files": len(files), "errors": severities.count("error"), "warnings": severities.count("warning")},
    }


def file_data(result: Result) -> dict[str, Any]:
    """One configuration as plain data."""
    context = result.context
    return {
        "path": result.path,
        "context": None
        if context is None
        else {
            "bridge": context.version.text,
            "recipe": context.recipe,
            "gpus": context.gpus,
            "gpu": context.gpu,
            "launcher": context.launcher,
            "sources": dict(context.sources),
        },
        "mode": result.mode,
        "verdict": result.verdict,
        "candidates": _candidates(result),
        "findings": [finding_data(finding, finding is result.first, result.path) for finding in result.findings],
        "by_release": [_by_release(finding) for finding in result.by_release],
        "not_checked": [_not_checked(entry) for entry in result.not_checked],
        "derived": {name: derived.value for name, derived in result.derived.items()},
        "upstream_tests": test_commands(result.run) if result.run is not None else [],
    }


def _candidates(result: Result) -> dict[str, Any] | None:
    """The recipes that a file without one was judged over, and how they answer."""
    held = result.candidates
    if held is None:
        return None
    answers = {"recipes": len(held.names), "rejected": held.rejected, "accepted": held.accepted, "unknown": held.open}
    return answers | {"few": [_seldom(finding) for finding in held.few]}


def _seldom(finding: Finding) -> dict[str, Any]:
    """A finding that hardly any of the recipes brings, in short."""
    count = finding.holds_for.number if finding.holds_for is not None else None
    return {"code": finding.rule.code, "slug": finding.rule.slug, "message": finding.message, "recipes": count}


def _by_release(finding: Finding) -> dict[str, Any]:
    """A finding that some of the releases bring that a file may be for, in short."""
    held = finding.holds_for
    assert held is not None
    return {
        "code": finding.rule.code,
        "slug": finding.rule.slug,
        "consequence": finding.outcome.consequence,
        "message": finding.message,
        "holds_for": held._asdict(),
    }


def _not_checked(entry: NotChecked) -> dict[str, Any]:
    return {"code": entry.rule.code, "needs": list(entry.needs)}


def finding_data(finding: Finding, fires_first: bool, path: str | None = None) -> dict[str, Any]:
    """One finding as plain data; it names its file where that is not the one reported on (layers, scripts)."""
    line, column, end = (None, None, None) if is_argument(finding.setting) else place(finding)
    data: dict[str, Any] = {
        "code": finding.rule.code,
        "slug": finding.rule.slug,
        "severity": finding.outcome.severity,
        "consequence": finding.outcome.consequence,
        "when": finding.outcome.when,
        "message": finding.message,
        "why": finding.why,
        "key": finding.setting.key or None,
        "line": line,
        "column": column,
        "end_column": end,
        "related": [_related(setting, path) for setting in distinct(finding.related, finding.setting)],
        "fix": None,
        "fires_first": fires_first,
        "holds_for": None if finding.holds_for is None else finding.holds_for._asdict(),
    }
    if finding.fix is not None:
        data["fix"] = {
            "safety": "safe" if finding.fix.safe else "unsafe",
            "title": finding.fix.title,
            "edits": [{"op": edit.op, "key": edit.key, "value": plain(edit.value), "to": edit.to} for edit in finding.fix.edits],
        }
    return data | _elsewhere(finding.setting, path)


def _related(setting: Setting, path: str | None) -> dict[str, Any]:
    span = setting.item.span if setting.item is not None and not is_argument(setting) else None
    return {
        "key": setting.key,
        "line": span.line if span else None,
        "column": span.column if span else None,
        "value": plain(setting.value),
    } | _elsewhere(setting, path)


def _elsewhere(setting: Setting, path: str | None) -> dict[str, str]:
    own = setting.document.path if setting.item is not None and setting.document is not None else None
    return {"path": own} if own is not None and own != path else {}


def is_argument(setting: Setting) -> bool:
    """Whether a value was given as KEY=VALUE on the command line: it stands in no file."""
    return setting.origin is Origin.OVERRIDE and (setting.document is None or setting.document.path is None)


def distinct(settings: Iterable[Setting], other: Setting) -> list[Setting]:
    """Related settings without repetition and without the finding's own place."""
    seen, kept = {other.key}, []
    for setting in settings:
        if setting.key not in seen:
            seen.add(setting.key)
            kept.append(setting)
    return kept


def place(finding: Finding) -> tuple[int | None, int | None, int | None]:
    """Line, column and end column of a finding, counted from 1; None where it is written nowhere."""
    item = finding.setting.item
    if item is None:
        return None, None, None
    span = item.key if finding.on_key and item.key is not None else item.span
    return span.line, span.column, span.end_column if span.end_line == span.line else span.column


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if value is ABSENT:
        return None
    if isinstance(value, Object):
        return {"_target_": value.target}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return hex(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
