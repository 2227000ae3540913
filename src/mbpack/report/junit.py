"""JUnit XML: one test case per configuration, errors and warnings as failures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from mbpack.report.json import Problem

#: Characters that XML 1.0 does not allow at all.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(files: Sequence[dict[str, Any]], problems: Sequence[Problem] = (), strict: bool = False) -> str:
    """A test suite with a test case per configuration: one that fails the command fails here, one without a verdict is an error."""
    failures = sum(bool(_failing(data, strict)) for data in files)
    counts = f'tests="{len(files) + len(problems)}" failures="{failures}" errors="{len(problems)}" skipped="0"'
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuite name="mbpack" {counts}>']
    for data in files:
        lines += _case(data, strict)
    for problem in problems:
        message = _attribute(problem.message)
        lines.append(f'  <testcase classname="mbpack" name={_attribute(problem.path or "arguments")}>')
        lines += [f'    <error type="input" message={message}/>', "  </testcase>"]
    return "\n".join([*lines, "</testsuite>"])


def _failing(data: dict[str, Any], strict: bool) -> list[dict[str, Any]]:
    """The findings that make the command fail."""
    return [f for f in data["findings"] if f["severity"] == "error" or (strict and f["severity"] == "warning")]


def _case(data: dict[str, Any], strict: bool) -> list[str]:
    name = _attribute(data["path"] or (data["context"] or {}).get("recipe") or "configuration")
    serious = [finding for finding in data["findings"] if finding["severity"] != "info"]
    if not serious:
        return [f'  <testcase classname="mbpack" name={name}/>']
    lines = [f'  <testcase classname="mbpack" name={name}>']
    text = "\n".join(f"line {f['line'] or '-'}: {f['code']} {f['message']}" for f in serious)
    failing = _failing(data, strict)
    if failing:
        message = _attribute(failing[0]["message"])
        lines.append(f"    <failure type={_attribute(failing[0]['slug'])} message={message}>{_text(text)}</failure>")
    else:
        lines.append(f"    <system-out>{_text(text)}</system-out>")
    return [*lines, "  </testcase>"]


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("?", text))


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("?", text))
