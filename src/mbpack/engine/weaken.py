"""What holds only under a condition is a warning that names it, and decides no verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from mbpack.engine.result import Result
from mbpack.rules.base import SEVERITIES, Finding

Mark: TypeAlias = tuple[str, str]


def mark(finding: Finding) -> Mark:
    """What tells a finding from others of one configuration, whatever its numbers: its rule and its key."""
    return finding.rule.code, finding.setting.key


def soften(result: Result, sure: Result, label: Callable[[Finding], str]) -> None:
    """Findings of ``result`` that ``sure`` does not bear out become warnings, and the verdict is that of what is certain."""
    open_ones = {id(finding) for finding in uncertain(result, sure)}
    first_holds = result.first is None or id(result.first) not in open_ones
    result.findings = [weaker(finding, label(finding)) if id(finding) in open_ones else finding for finding in result.findings]
    result.findings.sort(key=lambda finding: SEVERITIES.index(finding.outcome.severity))
    result.verdict = sure.verdict if sure.verdict == result.verdict else "unknown"
    if not first_holds:
        result.first = _first(result.findings, sure)


def uncertain(result: Result, sure: Result) -> list[Finding]:
    """Findings of ``result``, notes apart, that are none of ``sure`` and whose key is not refused there either."""
    certain = {mark(finding) for finding in sure.findings}
    refused = {finding.setting.key for finding in sure.findings if finding.outcome.consequence == "rejected"}
    return [
        finding
        for finding in result.findings
        if finding.outcome.severity != "info"
        and mark(finding) not in certain
        and not (finding.outcome.consequence == "rejected" and finding.setting.key in refused)
    ]


def _first(findings: Iterable[Finding], sure: Result) -> Finding | None:
    wanted = mark(sure.first) if sure.first is not None else None
    return next((finding for finding in findings if mark(finding) == wanted), None)


def weaker(finding: Finding, label: str) -> Finding:
    """The finding as a warning that says under which condition it holds; no fix of it is safe."""
    outcome = finding.outcome.as_warning()
    if outcome.consequence == "rejected":
        outcome = outcome._replace(consequence="crash")
    fix = finding.fix._replace(safe=False) if finding.fix is not None else None
    return replace(finding, outcome=outcome, message=f"{finding.message}, {label}", fix=fix)
