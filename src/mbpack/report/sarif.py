"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from mbpack import __version__
from mbpack.facts.pages import SITE, rule_url
from mbpack.report.json import Problem, dumps
from mbpack.report.places import in_repository
from mbpack.rules.catalogue import BY_NAME
from mbpack.rules.documentation import page_of

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(files: Sequence[dict[str, Any]], problems: Sequence[Problem] = (), strict: bool = False) -> str:
    """One SARIF log with one run; inputs that could not be used are notifications of the tool."""
    findings = [(data["path"], finding) for data in files for finding in data["findings"]]
    codes = list(dict.fromkeys(finding["code"] for _, finding in findings))
    driver = {
        "name": "mbpack",
        "version": __version__,
        "informationUri": SITE,
        "rules": [_rule(code) for code in codes],
    }
    results = [_result(path, finding, codes.index(finding["code"])) for path, finding in findings]
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(problems)],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _invocation(problems: Sequence[Problem]) -> dict[str, Any]:
    notes = [
        {"level": "error", "message": {"text": problem.message}, "locations": [_place({"line": None}, problem.path)]}
        for problem in problems
    ]
    return {"executionSuccessful": not problems, **({"toolExecutionNotifications": notes} if notes else {})}


def _rule(code: str) -> dict[str, Any]:
    rule = BY_NAME[code]
    page = page_of(rule)
    return {
        "id": code,
        "name": rule.slug,
        "shortDescription": {"text": page.title},
        "fullDescription": {"text": page.text or page.title},
        "help": {"text": f"mbpack explain {code}"},
        "helpUri": rule_url(code),
    }


def _result(path: str | None, finding: dict[str, Any], index: int) -> dict[str, Any]:
    text = finding["message"] + (f". {finding['why']}" if finding["why"] else "")
    result: dict[str, Any] = {
        "ruleId": finding["code"],
        "ruleIndex": index,
        "level": _LEVELS[finding["severity"]],
        "message": {"text": text},
        "properties": {"consequence": finding["consequence"], "when": finding["when"], "firesFirst": finding["fires_first"]},
    }
    result["locations"] = [_place(finding, path)]
    related = [_place(other, path) for other in finding["related"] if other["line"]]
    if related:
        result["relatedLocations"] = related
    return result


def _place(place: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The place of a finding or of a related setting; where it stands on no line, the first line of its file."""
    region = {"startLine": place["line"] or 1}
    if place["line"]:
        region["startColumn"] = place["column"]
        if place.get("end_column"):
            region["endColumn"] = place["end_column"]
    uri = _uri(in_repository(place.get("path", path)))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _uri(path: str) -> str:
    """A path as a URI reference: relative ones stay relative, for the reader to resolve in its checkout."""
    quoted = quote(path.replace("\\", "/").encode("utf-8", "surrogateescape"), safe="/:~" if path[1:2] == ":" else "/~")
    return f"file://{quoted}" if path.startswith("/") else quoted
