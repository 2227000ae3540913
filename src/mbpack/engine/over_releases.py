"""A configuration whose release nobody names, judged under every release that its keys and its recipe fit.

The report is about the release that is assumed, and says so. What the others would bring, or not, is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from mbpack.config.context import ContextError
from mbpack.config.shown_release import excludes
from mbpack.engine.merge import at_most_a_warning
from mbpack.engine.result import Result
from mbpack.facts import recipes
from mbpack.facts.releases import R06, RELEASES, Release
from mbpack.rules.base import Finding, HoldsFor

#: What a context says of a release that nobody named.
ASSUMED = ("default", "file")
#: The share of the recipes of a release from which on a finding is worth a word about that release.
USUAL = 0.5


def other_releases(result: Result, judge: Callable[[str], Result]) -> tuple[Finding, ...]:
    """What other releases that fit find, or do not find, each with the releases it holds for; ``judge`` judges under one.

    Only grave findings count, and those that a release has by another code at the same key count as the same.
    """
    context = result.context
    if context is None or result.run is None or context.sources.get("bridge") not in ASSUMED:
        return ()
    assumed = context.version.release
    found: dict[str, list[Finding]] = {}
    for release in _fitting(result, assumed):
        try:
            found[release.name] = _grave(judge(release.name))
        except ContextError:
            continue
    if not found:
        return ()
    found[assumed.name] = _grave(result)
    order = [release.name for release in RELEASES if release.name in found]
    return tuple(_differing({name: found[name] for name in order}))


def _fitting(result: Result, assumed: Release) -> Iterator[Release]:
    roots = [document.root for document in result.documents if document.root is not None]
    context = result.context
    assert context is not None
    for release in RELEASES:
        if release is assumed or release > R06 or excludes(roots, release) is not None:
            continue
        if context.recipe is None or recipes.find(release.name, context.recipe) is not None:
            yield release


def _grave(result: Result) -> list[Finding]:
    few = result.candidates.few if result.candidates is not None else ()
    return [finding for finding in (*result.findings, *few) if finding.outcome.severity != "info"]


def _is_usual(finding: Finding) -> bool:
    """Whether a finding holds for most recipes, where nobody names one: each release has recipes of its own."""
    held = finding.holds_for
    return held is None or held.input != "recipe" or held.number >= USUAL * held.of


def _differing(found: dict[str, list[Finding]]) -> Iterator[Finding]:
    held: dict[Any, dict[str, Finding]] = {}
    for name, findings in found.items():
        for finding in findings:
            held.setdefault((finding.rule.code, finding.outcome.consequence), {}).setdefault(name, finding)
    for by_release in held.values():
        if len(by_release) == len(found) or not any(map(_is_usual, by_release.values())):
            continue
        finding = next(reversed(by_release.values()))
        fix = finding.fix._replace(edits=(), safe=False) if finding.fix is not None else None
        others = tuple(name for name in found if name not in by_release)
        holds = HoldsFor(len(by_release), len(found), tuple(by_release), others, "bridge")
        yield replace(finding, outcome=at_most_a_warning(finding.outcome), fix=fix, holds_for=holds)
