"""Adopting the tool on an existing tree: findings that were there on the first day are not reported again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from mbpack.engine.result import Result

VERSION = 1


class BaselineError(ValueError):
    """A baseline file that cannot be used; the message is one line."""


def fingerprints(result: Result) -> tuple[str, ...]:
    """A mark per finding that survives moved lines: file, rule, key and message."""
    path = os.path.normpath(result.path) if result.path else ""
    return tuple(
        hashlib.sha256(
            "\0".join((path, finding.rule.code, finding.setting.key, finding.message)).encode("utf-8", "replace")
        ).hexdigest()[:16]
        for finding in result.findings
    )


def without(result: Result, known: Collection[str]) -> None:
    """Drop the findings that a baseline holds; the verdict stays what the start-up would say."""
    marks = fingerprints(result)
    kept = [finding for finding, mark in zip(result.findings, marks, strict=True) if mark not in known]
    result.suppressed += len(result.findings) - len(kept)
    result.findings = kept


def load(path: str) -> frozenset[str]:
    """The marks of a baseline file.

    Raises:
        BaselineError: the file is not one.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise BaselineError(f"{path}: baseline version {data['version']} is not known; write it anew with --write-baseline")
        return frozenset(str(mark) for mark in data["findings"])
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, BaselineError):
            raise
        raise BaselineError(f"{path}: not a baseline file; write one with --write-baseline {path}") from None


def dump(marks: Iterable[str]) -> str:
    """The text of a baseline file."""
    return json.dumps({"version": VERSION, "findings": sorted(set(marks))}, indent=1) + "\n"
