"""What the rules say after a change of single keys, from what they said before: only those that read a changed key are asked again.

The answer is the findings that a whole judgement would give, or None where only a whole judgement can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mbpack.config.answers import Unknown
from mbpack.config.assemble import build_run
from mbpack.config.document import Document
from mbpack.config.object_classes import walk
from mbpack.config.projected import changed_paths
from mbpack.config.run import Run
from mbpack.engine.check import asked
from mbpack.engine.doctor import Request
from mbpack.engine.reads import TARGET, Path, Touched, is_known
from mbpack.engine.result import Result
from mbpack.rules.base import Finding, Rule
from mbpack.rules.training.refused import FOUND, TOLD, TRIED

#: What a file may show of its own context; a change may then show another.
_SHOWN = ("recipe", "step", "nodes", "gpus", "launcher", "gpu")
#: Sections whose values say what lies on the disk.
_ON_DISK = ("dataset", "tokenizer")


def findings_after(base: Result, request: Request, documents: Sequence[Document]) -> list[Finding] | None:
    """All findings about changed documents, in no order; ``base`` is the judgement, by every rule, of the request as it is."""
    run = base.run
    if run is None or not _may_be_told(base, run, request):
        return None
    changed = _changed(base.documents, documents)
    if changed is None:
        return None
    new = build_run(run.context, documents, request.overrides, request.environ, doubted=request.doubted)
    if new.complete is not run.complete:
        return None
    signs = {"@layers", *_signs(run, new, changed)}
    if request.look is not None and any(path[0] in _ON_DISK for path in changed):
        new.evidence = request.look(new)
        if new.evidence != run.evidence:
            signs.add("@evidence")
    else:
        new.evidence = run.evidence
    return _asked_again(base, run, new, Touched.of_paths(new.release, changed), signs)


def _may_be_told(base: Result, run: Run, request: Request) -> bool:
    """Whether nothing but the keys of the files decides what the rules say."""
    if (
        request.variants
        or request.launch is not None
        or request.script is not None
        or run.settings.python
        or run.settings.assumed
    ):
        return False
    if run.stopped or base.failed_rules or run.context.ignores:
        return False
    if any(run.context.sources.get(name) == "file" for name in _SHOWN):
        return False
    return all(document.readable and not document.problems for document in base.documents)


def _changed(before: Sequence[Document], after: Sequence[Document]) -> list[Path] | None:
    """The paths that differ; None where a comment may, or where more than values does."""
    found: list[Path] = []
    for one, other in zip(before, after, strict=True):
        if one is other:
            continue
        if (
            one.root is None
            or other.root is None
            or other.problems
            or ("mbpack:" in one.text and _comments(one) != _comments(other))
        ):
            return None
        paths = changed_paths(one.root, other.root)
        if any(path[0].startswith("_") or path[-1].startswith("_") for path in paths):
            return None  # another class, or a whole configuration no more
        found += paths
    return found


def _comments(document: Document) -> list[str]:
    return [text for _, text in document.comments() if "mbpack" in text]


def _signs(run: Run, new: Run, changed: Iterable[Path]) -> Iterable[str]:
    """What beside the changed keys may be another: the classes, where a section comes or goes or one that names its class changes."""
    for path in changed:
        for settings in (run.settings, new.settings):
            for layer in settings.layers:
                item = layer.root
                for name in path:
                    if item.value.__class__ is dict and TARGET in item.value and item is not layer.root and not new.complete:
                        yield "@classes"
                    child = item.value.get(name) if item.value.__class__ is dict else None
                    if child is None:
                        if len(path) > 1 and name != path[-1]:
                            yield "@classes"
                        break
                    item = child
                else:
                    if item.value.__class__ is dict:
                        yield "@classes"


def _asked_again(base: Result, run: Run, new: Run, touched: Touched, signs: set[str]) -> list[Finding] | None:
    before, now = set(asked(run)), asked(new)
    values_only = all(_is_plain_value(run, path) and _is_plain_value(new, path) for path in touched.leaves)
    concerned = touched.concerned(signs)
    if values_only:
        concerned -= _ABOUT_NAMES
    again = [rule for rule in now if rule.slug in concerned or rule not in before or not is_known(rule)]
    told = _signature(run.memo.get(TOLD, ()))
    speakers = {rule for rule, _, _ in told if not rule.reads_findings}
    # where the tables speak under the code of a rule, they may have taken what it said for theirs
    again += [rule for rule in now if rule in speakers and rule not in again]
    gone = before.difference(now).union(again)
    if base.candidates is not None:
        from mbpack.engine.over_recipes import findings_over

        answer = findings_over(new, again, run, set(touched.leaves), "@evidence" in signs)
        if answer is None:
            return None
        gone = before.difference(now).union(answer[0])
        return [finding for finding in base.findings if finding.rule not in gone] + answer[1]
    kept = [finding for finding in base.findings if finding.rule not in gone and not _signature([finding]) & told]
    try:
        for rule in again:
            if not rule.reads_findings:
                kept += _said(rule, new)
        new.memo[FOUND], new.memo[TRIED] = kept, True
        for rule in again:
            if rule.reads_findings:
                kept += (
                    [f for f in base.findings if f.rule is rule]
                    if rule.says_the_same(run, new, touched.leaves)
                    else _said(rule, new)
                )
    except Exception:  # a rule that raises is an internal finding, and that is for the whole judgement to say
        return None
    return kept


#: Rules about which names and classes are written, whatever plain values they have.
_ABOUT_NAMES = frozenset(
    f"cfg/{name}"
    for name in """
    renamed-key yaml-unknown-key method-key non-text-key wrapper-key nested-under-none list-over-dict section-null section-missing
    target-family target-lenient target-blocked cli-renamed-key cli-under-null cli-unknown-key
    """.split()
)


def _signature(findings: Iterable[Finding]) -> set[tuple[Rule, str, str]]:
    """What tells findings from others."""
    return {(finding.rule, finding.setting.key, finding.message) for finding in findings}


def _is_plain_value(run: Run, path: Path) -> bool:
    """Whether a number, a truth value or a text stands at a path, in one layer or several."""
    items = [item for layer in run.settings.layers if (item := walk(layer.root, path)) is not None]
    return bool(items) and all(item.value.__class__ in (bool, int, float, str) for item in items)


def _said(rule: Rule, run: Run) -> list[Finding]:
    """What a rule says before an input is unknown. Raises WrongKind, which other rules may read."""
    found: list[Finding] = []
    try:
        for finding in rule.check(run):
            found.append(finding)
    except Unknown:
        pass
    return found
