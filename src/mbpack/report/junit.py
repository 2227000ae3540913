"""JUnit XML: one test case per configuration, errors and warnings as failures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

#: Characters that XML 1.0 does not allow at all.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(files: Sequence[dict[str, Any]]) -> str:
    """A test suite with a test case per configuration."""
    failures = sum(any(finding["severity"] == "error" for finding in data["findings"]) for data in files)
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuite name="mbpack" tests="{len(files)}" failures="{failures}">']
    for data in files:
        lines += _case(data)
    return "\n".join([*lines, "</testsuite>"])


def _case(data: dict[str, Any]) -> list[str]:
    name = _attribute(data["path"] or (data["context"] or {}).get("recipe") or "configuration")
    serious = [finding for finding in data["findings"] if finding["severity"] != "info"]
    if not serious:
        return [f"  <testcase name={name}/>"]
    lines = [f"  <testcase name={name}>"]
    text = "\n".join(f"line {f['line'] or '-'}: {f['code']} {f['message']}" for f in serious)
    errors = [finding for finding in serious if finding["severity"] == "error"]
    if errors:
        message = _attribute(errors[0]["message"])
        lines.append(f"    <failure type={_attribute(errors[0]['slug'])} message={message}>{_text(text)}</failure>")
    else:
        lines.append(f"    <system-out>{_text(text)}</system-out>")
    return [*lines, "  </testcase>"]


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("?", text))


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("?", text))
