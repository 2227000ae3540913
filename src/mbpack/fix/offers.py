"""Which fixes a report may offer: each is tried on the whole set of rules before anybody sees it.

A fix that another rule refuses is not offered: the report says what stands against it. A finding that goes away when
another one is mended says so instead of offering a fix of its own, and stands behind that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from mbpack.config.edit import CannotEdit
from mbpack.engine.again import findings_after
from mbpack.engine.check import Selection
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.fix.mend import Mark, Mender, Refused, certain_of, created, fixable, located, mark_of, start_of
from mbpack.fix.state import State, looked_at
from mbpack.rules.base import SEVERITIES, Finding, Fix
from mbpack.rules.files.documents import DUPLICATE

MOST_TRIED = 16
"""Fixes of one configuration that are tried; what is beyond them is offered as its rule says it, and tried by ``--fix``."""


class Tried(Struct):
    """What came of trying one fix: whether it holds without unsafe ones, the marks of the findings it takes away, and what is
    then there."""

    finding: Finding
    safe: bool
    gone: frozenset[Mark]
    state: State
    after: Result


def settle(request: Request, result: Result) -> None:
    """Try the fixes of a judged configuration, and write into its findings what came of it.

    The findings' order changes where one follows from another; ``result.fixable`` counts what ``--fix`` mends.
    """
    candidates = list(fixable(result, True, request.selection))[:MOST_TRIED]
    if result.run is None or not candidates:
        return
    tried: dict[Mark, Tried] = {}
    refused: dict[Mark, str] = {}
    request = certain_of(request)
    start, base = start_of(request), result
    whole = base if request.selection == Selection() else judge(replace(request, selection=Selection(), all_releases=False))
    for finding in candidates:
        found = _quickly(request, start, whole, finding) or _try(request, start, base, finding, not _is_safe(finding))
        if isinstance(found, str) and _is_safe(finding):
            found = _try(request, start, base, finding, True)
        if isinstance(found, str):
            refused[mark_of(finding)] = found
            continue
        tried[mark_of(finding)] = found
        if finding.rule is DUPLICATE:  # nothing else can be changed before
            start, base = found.state, found.after
            whole = base
    causes = _causes(result.findings, tried)
    first = result.first
    settled = {id(finding): _settled(finding, tried, refused, causes) for finding in result.findings}
    result.fixable = _counted(result.findings, tried, causes)
    result.findings = [settled[id(finding)] for finding in _ordered(result.findings, causes)]
    result.first = settled.get(id(first), first)


def _is_safe(finding: Finding) -> bool:
    return finding.fix is not None and finding.fix.safe


def _quickly(request: Request, start: State, base: Result, finding: Finding) -> Tried | None:
    """What comes of a fix that brings nothing with it, asking only the rules that it concerns; None where all are to be asked."""
    assert finding.fix is not None
    if finding.rule is DUPLICATE or start.fixed_files:
        return None
    try:
        state = looked_at(start, located(base, finding.fix))
    except CannotEdit:
        return None
    if state.texts == start.texts or state.overrides != start.overrides:
        return None
    found = findings_after(base, request, state.documents)
    if found is None or mark_of(finding) in map(mark_of, found):
        return None
    after = replace(base, findings=found)
    mender = Mender(request, base, False)
    if created(after, base) or not mender.keeps_told(state):
        return None
    return Tried(finding, finding.fix.safe, _gone(base, after, finding), state, after)


def _gone(base: Result, after: Result, finding: Finding) -> frozenset[Mark]:
    left = {(found.rule.code, found.setting.key) for found in after.findings}
    gone = {mark_of(found) for found in base.findings if (found.rule.code, found.setting.key) not in left}
    return frozenset(gone | {mark_of(finding)})


def _try(request: Request, start: State, base: Result, finding: Finding, unsafe: bool) -> Tried | str:
    try:
        state, after, done = Mender(request, base, unsafe).attempt(start, base, finding)
    except Refused as reason:
        return str(reason)
    return Tried(finding, all(entry.fix.safe for entry in done), _gone(base, after, finding), state, after)


def _causes(findings: Sequence[Finding], tried: dict[Mark, Tried]) -> dict[Mark, Tried]:
    """Finding -> the one whose fix takes it away; of two that take each other away, the one reported first is the cause."""
    found: dict[Mark, Tried] = {}
    place = {mark_of(finding): index for index, finding in enumerate(findings)}
    for finding in findings:
        mark = mark_of(finding)
        if finding.outcome.severity == "info":
            continue
        for other in tried.values():
            cause = mark_of(other.finding)
            if cause == mark or mark not in other.gone or cause in found or _milder(other.finding, finding):
                continue
            mutual = mark in tried and cause in tried[mark].gone
            if mutual and place[mark] < place[cause]:
                continue
            found[mark] = other
            break
    return found


def _milder(one: Finding, other: Finding) -> bool:
    """Whether one finding is less grave than another: who heeds a warning may do so otherwise, and then the error is still there."""
    return SEVERITIES.index(one.outcome.severity) > SEVERITIES.index(other.outcome.severity)


def _settled(finding: Finding, tried: dict[Mark, Tried], refused: dict[Mark, str], causes: dict[Mark, Tried]) -> Finding:
    fix, mark = finding.fix, mark_of(finding)
    cause = causes.get(mark)
    if cause is not None:
        code = cause.finding.rule.code
        own = mark in tried and tried[mark].safe and not cause.safe
        if own and fix is not None:
            return replace(finding, fix=fix._replace(title=f"{fix.title}; not needed with the fix of {code}"))
        return replace(finding, fix=Fix(f"goes away with the fix of {code}"))
    if fix is None:
        return finding
    if mark in refused:
        return replace(finding, fix=Fix(f"to be decided by hand: {fix.title}; {refused[mark]}"))
    if mark in tried and fix.safe and not tried[mark].safe:
        return replace(finding, fix=fix._replace(safe=False))
    return finding


def _counted(findings: Sequence[Finding], tried: dict[Mark, Tried], causes: dict[Mark, Tried]) -> tuple[int, int]:
    """Findings that ``--fix`` takes away, and how many more ``--unsafe-fixes`` does."""
    safe = unsafe = 0
    for finding in findings:
        if finding.outcome.severity == "info":
            continue
        ways = [way for way in (tried.get(mark_of(finding)), causes.get(mark_of(finding))) if way is not None]
        if any(way.safe for way in ways):
            safe += 1
        elif ways:
            unsafe += 1
    return safe, unsafe


def _ordered(findings: Sequence[Finding], causes: dict[Mark, Tried]) -> list[Finding]:
    """Causes before what follows from them, else as they were."""
    ordered: list[Finding] = []
    for finding in findings:
        cause = causes.get(mark_of(finding))
        for one in (cause.finding if cause is not None else None, finding):
            if one is not None and not any(one is other for other in ordered):
                ordered.append(one)
    return ordered
