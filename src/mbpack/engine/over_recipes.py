"""A file without a recipe, judged over every recipe it may stand on.

What holds for all of them is what it is with one recipe; what holds for some is a warning at most and says with how many and
with which; a fault that a recipe has by itself is not the file's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial

from msgspec import Struct, field
from msgspec.structs import replace

from mbpack.config.context import Context
from mbpack.config.run import Run
from mbpack.config.settings import Setting, Settings, Unknown, WrongKind
from mbpack.engine.candidates import candidates
from mbpack.engine.merge import Said, by_place, covered, merged, some
from mbpack.engine.over_context import launcher, over_values
from mbpack.engine.reads import Touched
from mbpack.engine.result import NotChecked
from mbpack.engine.split import Part, answers, whole
from mbpack.facts.recipe_sets import Fork, table
from mbpack.rules.base import Finding, HoldsFor, Rule
from mbpack.rules.internal import INTERNAL

#: Findings on a smaller share of the recipes than this are only counted.
FEW = 0.1
#: Unknown for this share of the recipes, a rule counts as not checked.
MOSTLY = 0.5


class Overall(Struct):
    """What the rules say over all candidates; masks are those of recipes."""

    part: Part
    findings: list[Finding] = field(default_factory=list)
    few: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    failed_rules: list[str] = field(default_factory=list)
    checked: int = 0
    rejected: int = 0  # the mask of those that refuse the file for a reason of the file
    unjudged: int = 0  # the mask of those for which a refusing check could not be judged
    elsewhere: int = 0  # how many recipes accept what all candidates refuse: some key of the file does nothing there

    @property
    def names(self) -> list[str]:
        """The candidates."""
        return self.part.names


class _Stop(Struct, frozen=True):
    """A value of the wrong kind that stopped a rule, and the station at which upstream stops too."""

    setting: Setting
    station: str


class _Answer(Struct):
    """What one rule says over a set of recipes."""

    rule: Rule
    said: list[Said] = field(default_factory=list)
    unknown: list[tuple[int, Unknown]] = field(default_factory=list)


def judge_over_recipes(run: Run, rules: Sequence[Rule], decides: Callable[[NotChecked], bool]) -> Overall:
    """Ask every rule about a run on all recipes that fit it; ``decides`` says whether an unjudged rule leaves a verdict open."""
    part = candidates(run)
    overall = Overall(part)
    wanted = _wanted(run, rules)
    overall.checked = len(rules) - len(wanted)
    _ask_all(overall, run, wanted, decides)
    rest = part.table.all & ~part.mask
    if overall.rejected == part.mask and rest:
        _ask_the_others(overall, whole(run, part.table, rest), wanted)
    return overall


def findings_over(run: Run, rules: Sequence[Rule], names: Sequence[str]) -> list[Finding] | None:
    """What some rules say about a run over its recipes; None where those are not the ones with the names given."""
    overall = Overall(candidates(run))
    if overall.names != list(names):
        return None
    _ask_all(overall, run, _wanted(run, rules), lambda _: False)
    return None if overall.failed_rules else overall.findings


def _wanted(run: Run, rules: Sequence[Rule]) -> list[Rule]:
    touched = Touched.of_run(run)
    return [rule for rule in rules if not rule.reads_findings and touched.by(rule)]


def _ask_all(overall: Overall, run: Run, rules: Sequence[Rule], decides: Callable[[NotChecked], bool]) -> None:
    """Ask rules over the candidates; those that ask for a launcher nobody named under each."""
    unknown = launcher(run)
    depend = [rule for rule in rules if unknown is not None and unknown.is_asked_by(rule)]
    for answer in _survey(overall.part, [rule for rule in rules if rule not in depend], overall.failed_rules):
        for finding in _noted(overall, overall.part, answer, decides):
            _keep(overall, finding)
    if unknown is None or not depend:
        return
    said: dict[Rule, list[list[Finding]]] = {rule: [] for rule in depend}
    rejected: list[int] = []
    before, checked = overall.rejected, overall.checked
    for value in unknown.values:
        part = whole(unknown.run(run, value), overall.part.table, overall.part.mask)
        part.near = overall.part.near
        overall.rejected = before
        for answer in _survey(part, depend, overall.failed_rules):
            said[answer.rule].append(_noted(overall, part, answer, decides))
        rejected.append(overall.rejected)
    overall.rejected = rejected[0] & rejected[1]
    overall.unjudged |= (rejected[0] | rejected[1]) & ~overall.rejected
    for findings in said.values():
        for finding in over_values(unknown, findings):
            _keep(overall, finding)
    left = {entry.rule for entry in overall.not_checked}
    overall.checked = checked + sum(rule not in left for rule in depend)


def _noted(overall: Overall, part: Part, answer: _Answer, decides: Callable[[NotChecked], bool]) -> list[Finding]:
    """What a rule says about the file, with what it leaves open and refuses noted."""
    _note_unknown(overall, answer, decides)
    said = _of_the_file(part, answer)
    overall.rejected |= covered([entry for entry in said if entry.finding.outcome.consequence == "rejected"])
    return [merged(part, entries) for entries in by_place(said)]


def _survey(part: Part, rules: Iterable[Rule], failed: list[str]) -> Iterator[_Answer]:
    stops: list[tuple[int, _Stop]] = []
    for rule in rules:
        answer = _Answer(rule)
        for mask, (findings, stop) in answers(part, part.mask, partial(_ask, rule, stops, failed)):
            answer.said += [Said(mask, finding) for finding in findings]
            if isinstance(stop, Unknown):
                answer.unknown.append((mask, stop))
            elif stop is not None:
                stops.append((mask, stop))
        yield answer


def _ask(
    rule: Rule, stops: Sequence[tuple[int, _Stop]], failed: list[str], part: Part
) -> tuple[list[Finding], Unknown | _Stop | None]:
    if rule.late:
        part.run.stopped = list(_stopped(part, stops))
    try:
        return list(rule.check(part.run)), None
    except Unknown as unknown:
        return [], unknown
    except WrongKind as wrong:
        return [], _Stop(wrong.setting, rule.stops_at(part.run))
    except Fork:
        raise
    except Exception as error:
        if rule.code in failed:
            return [], None
        failed.append(rule.code)
        return [INTERNAL.about(part.run, rule, error)], None


def _stopped(part: Part, stops: Sequence[tuple[int, _Stop]]) -> Iterator[tuple[Setting, str]]:
    """What stopped other rules for all recipes of a part. Raises Fork where it stopped them for some."""
    for mask, stop in stops:
        shared = mask & part.mask
        if shared and shared != part.mask:
            raise Fork((shared, part.mask & ~mask))
        if shared:
            yield stop.setting, stop.station


def _note_unknown(overall: Overall, answer: _Answer, decides: Callable[[NotChecked], bool]) -> None:
    told = [(mask, unknown) for mask, unknown in answer.unknown if unknown.needs or unknown.reason != "moot"]
    entries = [(mask, NotChecked(answer.rule, unknown.needs, unknown.key, unknown.reason)) for mask, unknown in told]
    for mask, entry in entries:
        if decides(entry):
            overall.unjudged |= mask
    if entries and sum(mask.bit_count() for mask, _ in entries) >= MOSTLY * overall.part.mask.bit_count():
        if not any(entry.rule is answer.rule for entry in overall.not_checked):
            overall.not_checked.append(max(entries, key=lambda pair: pair[0].bit_count())[1])
    else:
        overall.checked += 1


def _keep(overall: Overall, finding: Finding) -> None:
    held = finding.holds_for
    if held is None:
        overall.findings.append(finding)
    elif finding.outcome.severity != "info":  # a note that some recipes bring is no note about the file
        seldom = held.input == "recipe" and held.number < FEW * held.of
        near = seldom and any(overall.part.table.bit(name) & overall.part.near for name in held.such_as)
        (overall.few if seldom and not near else overall.findings).append(finding)


def _ask_the_others(overall: Overall, others: Part, rules: Iterable[Rule]) -> None:
    """Recipes on which some key of the file would do nothing may accept what all candidates refuse; then no verdict is certain."""
    refusing = (rule for rule in rules if rule.rejects)
    answered = (_of_the_file(others, answer) for answer in _survey(others, refusing, overall.failed_rules))
    refused = covered([entry for said in answered for entry in said if entry.finding.outcome.consequence == "rejected"])
    accepting = others.mask & ~refused
    overall.elsewhere = accepting.bit_count()
    if not accepting:
        return
    count, total = overall.part.mask.bit_count(), overall.part.table.all.bit_count()
    held = HoldsFor(count, total, some(overall.part, overall.part.mask), some(others, accepting))
    overall.findings = [
        replace(finding, holds_for=held) if finding.outcome.consequence == "rejected" and finding.holds_for is None else finding
        for finding in overall.findings
    ]


def _of_the_file(part: Part, answer: _Answer) -> list[Said]:
    """What a rule says that is not the same with nothing written over the recipe, at a key that the file does not write."""
    own = _own_faults(part, answer)
    kept = []
    for entry in answer.said:
        mask = entry.mask if entry.finding.setting.item is not None else entry.mask & ~own.get(_words(entry.finding), 0)
        if mask:
            kept.append(Said(mask, entry.finding))
    return kept


def _words(finding: Finding) -> tuple[str, str]:
    return finding.setting.key, finding.message


def _own_faults(part: Part, answer: _Answer) -> dict[tuple[str, str], int]:
    """What the rule says about recipes alone, each with its recipes."""
    wanted = covered([entry for entry in answer.said if entry.finding.setting.item is None])
    own: dict[tuple[str, str], int] = {}
    if wanted:
        for mask, (findings, _) in answers(_alone(part.run.context), wanted, partial(_ask, answer.rule, (), [])):
            for finding in findings:
                own[_words(finding)] = own.get(_words(finding), 0) | mask
    return own


def _alone(context: Context) -> Part:
    """All recipes of a release with nothing written over them; kept, since every file asks for it."""
    kept = _alone_by(context.version.text, context.gpus, context.launcher)
    if not kept:
        from mbpack.facts.schema import schema

        held = table(context.version.release.name)
        run = Run(Settings(context.version, schema(context.version.release.name), ()), context)
        kept.append(whole(run, held, held.all))
    return kept[0]


@lru_cache(maxsize=8)
def _alone_by(release: str, gpus: int | None, launcher: str | None) -> list[Part]:
    return []
