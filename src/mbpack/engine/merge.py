"""Findings on several recipes as one: what all share is certain, what some bring says with how many and with which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mbpack.engine.split import Part
from mbpack.facts.recipe_sets import bits
from mbpack.rules.base import SEVERITIES, Finding, Fix, HoldsFor, Outcome

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_NAMED = 2


class Said(Struct):
    """One finding, with the recipes for which a rule says it, as a mask."""

    mask: int
    finding: Finding


def by_place(said: Sequence[Said]) -> list[list[Said]]:
    """What a rule says, together where it is about one place."""
    places: dict[Any, list[Said]] = {}
    for entry in in_order(said):
        places.setdefault(place_of(entry.finding), []).append(entry)
    return list(places.values())


def place_of(finding: Finding) -> Any:
    """What tells one place of a finding from another."""
    item = finding.setting.item
    return finding.setting.key, None if item is None else (item.span.start, finding.on_key)


def merged(part: Part, entries: Sequence[Said]) -> Finding:
    """One finding for what is said about one place; on some recipes only, it is a warning at most and no fix of it is safe."""
    words = _by_words(entries)
    most = max(words, key=lambda entry: (entry.mask & part.near != 0, entry.mask.bit_count()))
    texts, finding = [entry.finding for entry in words], most.finding
    finding = replace(
        finding,
        message=ranged([one.message for one in texts], finding.message),
        why=ranged([one.why for one in texts], finding.why),
        fix=_shared_fix(texts, finding.fix),
    )
    mask = covered(entries)
    if mask == part.mask and not finding.rule.about_the_recipe:
        return replace(finding, outcome=_shared_outcome(entries))
    held = HoldsFor(mask.bit_count(), part.mask.bit_count(), some(part, most.mask), some(part, part.mask & ~mask))
    fix = finding.fix._replace(safe=False) if finding.fix is not None else None  # with another recipe nothing is wrong
    return replace(finding, outcome=at_most_a_warning(finding.outcome), fix=fix, holds_for=held)


def _by_words(entries: Sequence[Said]) -> list[Said]:
    """What is said in the same words as one, whatever it follows from; shown as it is said for the first recipe."""
    found: dict[Any, Said] = {}
    for entry in in_order(entries):
        finding = entry.finding
        words = finding.message, finding.why, finding.outcome, repr(finding.fix)
        known = found.get(words)
        found[words] = entry if known is None else Said(known.mask | entry.mask, known.finding)
    return list(found.values())


def in_order(entries: Sequence[Said]) -> list[Said]:
    """Entries by their first recipe: how the recipes were split then shows nowhere."""
    return sorted(entries, key=lambda entry: entry.mask & -entry.mask)


def covered(entries: Sequence[Said]) -> int:
    """The recipes of several entries."""
    mask = 0
    for entry in entries:
        mask |= entry.mask
    return mask


def some(part: Part, mask: int) -> tuple[str, ...]:
    """Some of the recipes of a mask: those that the file's name speaks of, then the shortest names, which people know."""
    named = [(bit & part.near == 0, part.table.names[bit.bit_length() - 1]) for bit in bits(mask)]
    return tuple(name for _, name in sorted(named, key=lambda pair: (pair[0], len(pair[1]), pair[1]))[:_NAMED])


def at_most_a_warning(outcome: Outcome) -> Outcome:
    """The outcome of something that need not be so."""
    return outcome.as_warning() if outcome.severity == "error" else outcome


def _shared_outcome(entries: Sequence[Said]) -> Outcome:
    """What happens with every recipe: the mildest severity, and a refusal only where all refuse."""
    severity = max((entry.finding.outcome.severity for entry in entries), key=SEVERITIES.index)
    later = [entry for entry in entries if entry.finding.outcome.consequence != "rejected"]
    most = max(_by_words(later or entries), key=lambda entry: entry.mask.bit_count())
    return most.finding.outcome._replace(severity=severity)


def _shared_fix(texts: Sequence[Finding], fix: Fix | None) -> Fix | None:
    """The fix that all recipes share; where they differ, its words without edits."""
    if fix is None or len({repr(finding.fix) for finding in texts}) == 1:
        return fix
    titles = [finding.fix.title for finding in texts if finding.fix is not None]
    return Fix(f"{ranged(titles, fix.title)} (which, depends on the recipe)")


def ranged(texts: Sequence[str], shown: str) -> str:
    """Texts that differ in their numbers alone, as one with ranges; else the one that is shown.

    >>> ranged(["32 heads by TP 3", "8 heads by TP 3"], "32 heads by TP 3")
    '8 to 32 heads by TP 3'
    """
    kinds = set(texts)
    if len(kinds) < 2 or len({_NUMBER.sub("#", text) for text in kinds}) != 1:
        return shown
    columns = zip(*(_NUMBER.findall(text) for text in sorted(kinds)), strict=True)
    spans = iter([_span(column) for column in columns])
    return _NUMBER.sub(lambda _: next(spans), shown)


def _span(numbers: Sequence[str]) -> str:
    if len(set(numbers)) == 1:
        return numbers[0]
    ordered = sorted(set(numbers), key=lambda text: float(text.replace(",", "")))
    return f"{ordered[0]} to {ordered[-1]}"
