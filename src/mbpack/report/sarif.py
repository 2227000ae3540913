"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from mbpack import __version__
from mbpack.report.json import dumps
from mbpack.rules.catalogue import BY_NAME
from mbpack.rules.documentation import page_of

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(files: Sequence[dict[str, Any]]) -> str:
    """One SARIF log with one run."""
    findings = [(data["path"], finding) for data in files for finding in data["findings"]]
    codes = list(dict.fromkeys(finding["code"] for _, finding in findings))
    driver = {
        "name": "mbpack",
        "version": __version__,
        "informationUri": "https://github.com/mbpack/mbpack",
        "rules": [_rule(code) for code in codes],
    }
    results = [_result(path, finding, codes.index(finding["code"])) for path, finding in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: str) -> dict[str, Any]:
    rule = BY_NAME[code]
    page = page_of(rule)
    return {
        "id": code,
        "name": rule.slug,
        "shortDescription": {"text": page.title},
        "fullDescription": {"text": page.text or page.title},
        "help": {"text": f"mbpack explain {code}"},
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
    locations = list(_locations(path, finding))
    if locations:
        result["locations"] = locations
    related = [place for other in finding["related"] if other["line"] for place in _locations(path, other)]
    if related:
        result["relatedLocations"] = related
    return result


def _locations(path: str | None, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The place of a finding or of a related setting; none for stdin and for arguments without a file."""
    path = place.get("path", path)
    if not path or path == "-":
        return
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
    if place["line"]:
        location["region"] = {"startLine": place["line"], "startColumn": place["column"]}
        if place.get("end_column"):
            location["region"]["endColumn"] = place["end_column"]
    yield {"physicalLocation": location}


def _uri(path: str) -> str:
    """A path as a URI reference: relative ones stay relative, for the reader to resolve in its checkout."""
    quoted = quote(path.replace("\\", "/").encode("utf-8", "surrogateescape"), safe="/:~" if path[1:2] == ":" else "/~")
    return f"file://{quoted}" if path.startswith("/") else quoted
