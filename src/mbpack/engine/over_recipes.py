"""A file without a recipe, judged over every recipe it may stand on.

What holds for all of them is what it is with one recipe; what holds for some is a warning at most and says with how many and
with which; a fault that a recipe has by itself is not the file's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mbpack.config.context import Context
from mbpack.config.run import Run
from mbpack.config.settings import Settings, Unknown, WrongKind
from mbpack.engine.candidates import candidates
from mbpack.engine.reads import Touched
from mbpack.engine.result import NotChecked
from mbpack.engine.split import Part, answers, whole
from mbpack.facts.recipe_sets import Fork, bits, table
from mbpack.rules.base import SEVERITIES, Finding, Fix, HoldsFor, Outcome, Rule
from mbpack.rules.internal import INTERNAL

#: Findings on a smaller share of the recipes than this are only counted.
FEW = 0.1
#: Unknown for this share of the recipes, a rule counts as not checked.
MOSTLY = 0.5
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NAMED = 2


class Overall(Struct):
    """What the rules say over all candidates."""

    part: Part
    findings: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    failed_rules: list[str] = field(default_factory=list)
    checked: int = 0
    rejected: int = 0  #: mask of the recipes that refuse the file for a reason of the file
    unjudged: int = 0  #: mask of the recipes for which a refusing check could not be judged
    few: list[Finding] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The candidates."""
        return [self.part.table.names[bit.bit_length() - 1] for bit in bits(self.part.mask)]


class _Said(Struct):
    """One finding, with the recipes for which a rule says it."""

    mask: int
    finding: Finding


def judge_over_recipes(run: Run, rules: Sequence[Rule], decides: Any) -> Overall:
    """Ask every rule about a run on all recipes that fit it. ``decides(entry)`` says whether an unjudged rule leaves a verdict open."""
    part = candidates(run)
    overall = Overall(part)
    stops: list[tuple[int, Any, str]] = []
    touched = Touched(run)
    for rule in rules:
        if not touched.by(rule):
            overall.checked += 1
            continue
        said: list[_Said] = []
        unknown: list[tuple[int, Unknown]] = []
        for mask, (findings, stop) in answers(part, part.mask, partial(_ask, rule, stops, overall)):
            said += [_Said(mask, finding) for finding in findings]
            if isinstance(stop, Unknown):
                unknown.append((mask, stop))
            elif stop is not None:
                stops.append((mask, stop.setting, stop.station))
        _note_unknown(overall, rule, unknown, decides)
        if said:
            overall.rejected |= _take(overall, rule, said)
    return overall


class _Stop(Struct, frozen=True):
    setting: Any
    station: str


def _ask(
    rule: Rule, stops: list[tuple[int, Any, str]], overall: Overall, part: Part
) -> tuple[list[Finding], Unknown | _Stop | None]:
    run = part.run
    if rule.late:
        run.stopped = _stopped(part, stops)
    try:
        return list(rule.check(run)), None
    except Unknown as unknown:
        return [], unknown
    except WrongKind as wrong:
        return [], _Stop(wrong.setting, rule.stops_at(run))
    except Fork:
        raise
    except Exception as error:
        if rule.code not in overall.failed_rules:
            overall.failed_rules.append(rule.code)
            return [INTERNAL.about(run, rule, error)], None
        return [], None


def _stopped(part: Part, stops: list[tuple[int, Any, str]]) -> list[tuple[Any, str]]:
    """What stopped other rules for all recipes of a part. Raises Fork where it stopped them for some."""
    found = []
    for mask, setting, station in stops:
        shared = mask & part.mask
        if shared and shared != part.mask:
            raise Fork((shared, part.mask & ~mask))
        if shared:
            found.append((setting, station))
    return found


def _note_unknown(overall: Overall, rule: Rule, unknown: list[tuple[int, Unknown]], decides: Any) -> None:
    told = [(mask, reason) for mask, reason in unknown if reason.needs or reason.reason != "moot"]
    whole_mask = overall.part.mask
    open_for = 0
    for mask, reason in told:
        if decides(NotChecked(rule, reason.needs, reason.key, reason.reason)):
            open_for |= mask
    overall.unjudged |= open_for
    share = sum(mask.bit_count() for mask, _ in told) / whole_mask.bit_count()
    if told and share >= MOSTLY:
        _, reason = max(told, key=lambda entry: entry[0].bit_count())
        overall.not_checked.append(NotChecked(rule, reason.needs, reason.key, reason.reason))
    else:
        overall.checked += 1


def _take(overall: Overall, rule: Rule, said: list[_Said]) -> int:
    """Keep a rule's findings, each place once; returns the recipes that they refuse."""
    own = _own_faults(overall.part, rule, said)
    places: dict[Any, list[_Said]] = {}
    refused = 0
    for entry in said:
        mask = entry.mask if entry.finding.setting.item is not None else entry.mask & ~own.get(_words(entry.finding), 0)
        if not mask:
            continue
        if entry.finding.outcome.consequence == "rejected":
            refused |= mask
        places.setdefault(_place(entry.finding), []).append(_Said(mask, entry.finding))
    for entries in places.values():
        _merge(overall, entries)
    return refused


def _words(finding: Finding) -> Any:
    return finding.setting.key, finding.message


def _place(finding: Finding) -> Any:
    item = finding.setting.item
    return finding.setting.key, None if item is None else (item.span.start, finding.on_key)


def _own_faults(part: Part, rule: Rule, said: Iterable[_Said]) -> dict[Any, int]:
    """What a rule says about recipes alone, in the same words and about a key that the file does not write: no word about the file."""
    wanted = 0
    for entry in said:
        if entry.finding.setting.item is None:
            wanted |= entry.mask
    if not wanted:
        return {}
    context = part.run.context
    alone = _alone(part.run.release.name, context.gpus, context.launcher, context)
    own: dict[Any, int] = {}
    for mask, (findings, _) in answers(alone, wanted, partial(_ask, rule, [], Overall(alone))):
        for finding in findings:
            own[_words(finding)] = own.get(_words(finding), 0) | mask
    return own


@lru_cache(maxsize=8)
def _alone_by(release: str, gpus: int | None, launcher: str | None) -> list[Part]:
    return []


def _alone(release: str, gpus: int | None, launcher: str | None, context: Context) -> Part:
    """All recipes of a release with nothing written over them; kept, since every file asks for it."""
    kept = _alone_by(release, gpus, launcher)
    if not kept:
        from mbpack.facts.schema import schema

        held = table(release)
        run = Run(Settings(context.version, schema(release), ()), context)
        kept.append(whole(run, held, held.all))
    return kept[0]


def _merge(overall: Overall, entries: list[_Said]) -> None:
    """One finding for what a rule says about one place on several recipes."""
    mask = 0
    for entry in entries:
        mask |= entry.mask
    total, count = overall.part.mask.bit_count(), mask.bit_count()
    most = max(entries, key=lambda entry: entry.mask.bit_count())
    finding = most.finding
    texts = [entry.finding for entry in entries]
    finding = replace(finding, message=ranged([f.message for f in texts], finding.message), fix=_shared_fix(texts, finding.fix))
    finding = replace(finding, why=ranged([f.why for f in texts], finding.why))
    if mask == overall.part.mask:
        overall.findings.append(replace(finding, outcome=_shared_outcome(entries)))
        return
    if finding.outcome.severity == "info":
        return  # a note that some recipes bring is no note about the file
    held = HoldsFor(count, total, _names(overall.part, most.mask), _names(overall.part, overall.part.mask & ~mask))
    fix = finding.fix._replace(safe=False) if finding.fix is not None else None  # with another recipe nothing is wrong
    finding = replace(finding, outcome=finding.outcome.as_warning(), fix=fix, holds_for=held)
    (overall.few if count < FEW * total else overall.findings).append(finding)


def _shared_outcome(entries: list[_Said]) -> Outcome:
    """What happens with every recipe: the mildest severity, and a refusal only where all refuse."""
    severity = max((entry.finding.outcome.severity for entry in entries), key=SEVERITIES.index)
    later = [entry for entry in entries if entry.finding.outcome.consequence != "rejected"]
    most = max(later or entries, key=lambda entry: entry.mask.bit_count())
    return most.finding.outcome._replace(severity=severity)


def _names(part: Part, mask: int) -> tuple[str, ...]:
    """Some of the recipes of a mask, the shortest names first: those that people know."""
    names = [part.table.names[bit.bit_length() - 1] for bit in bits(mask)]
    return tuple(sorted(names, key=lambda name: (len(name), name))[:_NAMED])


def _shared_fix(texts: list[Finding], fix: Fix | None) -> Fix | None:
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
