"""Apply the fixes of a configuration, one after the other, until nothing is left to do.

After each fix the configuration is judged again. A fix is kept when its finding is gone and no error is new; what it
uncovers or brings with it must be mendable in the same breath, otherwise the fix is taken back and left to the user.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct
from msgspec.structs import replace

from mbpack.config.context import directives_of
from mbpack.config.edit import CannotEdit
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.engine.check import Selection
from mbpack.engine.doctor import Request, context_of, judge
from mbpack.engine.result import Result
from mbpack.fix.state import State, apply
from mbpack.rules.base import Edit, Finding, Fix
from mbpack.rules.files.documents import DUPLICATE

MAX_FIXES = 200
"""Most fixes of one configuration; each is followed by a new judgement."""

MAX_CHAIN = 12
"""Most further fixes that one fix may need to be free of new errors."""


class Done(Struct, frozen=True):
    """A fix that was made: its finding, and the edits in the keys of the file."""

    finding: Finding
    fix: Fix
    edits: tuple[Edit, ...]


class Manual(Struct, frozen=True):
    """A fix that is left to the user, and why."""

    finding: Finding
    reason: str


class Mended(Struct):
    """What became of a configuration."""

    before: Result
    after: Result
    start: State
    state: State
    done: list[Done]
    manual: list[Manual]

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        return self.state.texts != self.start.texts

    @property
    def gone(self) -> int:
        """Errors and warnings of the beginning that were mended or went away with others."""
        mended = {mark_of(entry.finding) for entry in self.done}
        left = {(found.rule.code, found.setting.key) for found in self.after.findings}
        return sum(
            mark_of(found) in mended or (found.rule.code, found.setting.key) not in left
            for found in self.before.findings
            if found.outcome.severity != "info"
        )


def mend(request: Request, unsafe: bool = False) -> Mended:
    """Apply the safe fixes of a configuration, and the unsafe ones where asked. Nothing is written.

    Raises:
        ContextError: a flag cannot be used: an unknown release or recipe.
    """
    request = certain_of(request)
    start = start_of(request)
    before = judge(_request(request, start))
    return Mender(request, before, unsafe).run(start)


def certain_of(request: Request) -> Request:
    """The request for what is certain of a program; any other request as it is."""
    if not request.variants:
        return request
    certain = request.variants[0]
    return replace(request, documents=certain.documents, overrides=(*certain.overrides, *request.overrides), variants=())


def fixable(result: Result, unsafe: bool, selection: Selection | None = None) -> Iterator[Finding]:
    """Findings whose fix has edits and may be applied: keys written twice, names and shapes, then what the values mean.

    Notes are no findings to be mended: what they say holds, or the launcher sees to it.
    """
    for finding in sorted(result.findings, key=lambda found: (found.rule is not DUPLICATE, found.rule.topic != "cfg")):
        fix = finding.fix
        if finding.outcome.severity == "info":
            continue
        if fix is not None and fix.edits and (fix.safe or unsafe) and (selection is None or selection.wants(finding.rule)):
            yield finding


def start_of(request: Request) -> State:
    overrides = tuple(override.text for override in request.overrides)
    if request.launch is not None:
        overrides = (*(override.text for override in request.launch.overrides), *overrides)
    return State(tuple(request.documents), overrides, fixed_files=request.launch is not None)


def _request(request: Request, state: State, bridge: str | None = None) -> Request:
    """The request for a state. All rules run, so that nothing new stays unseen; the release stays what it was at first."""
    from mbpack.config.overrides import parse_overrides

    launch, overrides = request.launch, state.overrides
    if launch is not None:
        from mbpack.config.shell import LaunchOverride, Word

        words = (Word(text, True, (), 1, 1, 1) for text in overrides)
        launch, overrides = replace(launch, overrides=tuple(LaunchOverride(word, word) for word in words)), ()
    flags = request.flags if bridge is None or request.flags.bridge else replace(request.flags, bridge=bridge)
    return replace(
        request,
        documents=state.documents,
        overrides=tuple(parse_overrides(overrides)),
        launch=launch,
        selection=Selection(),
        flags=flags,
        all_releases=False,
    )


Mark = tuple[str, str, str]


def mark_of(finding: Finding) -> Mark:
    return finding.rule.code, finding.setting.key, finding.message


class Refused(Exception):
    """This fix cannot stay; the message says why."""


class Mender:
    """Fixes of one configuration, judged one after the other."""

    def __init__(self, request: Request, before: Result, unsafe: bool) -> None:
        self.request, self.before, self.unsafe = request, before, unsafe
        self.bridge = before.context.version.text if before.context is not None else None
        self.failed: dict[Mark, str] = {}
        self.seen: set[tuple[str, ...]] = set()

    def run(self, start: State) -> Mended:
        state, result = start, self.before
        done: list[Done] = []
        self.seen.add(start.texts)
        again = False  # whether a fix was made since another one failed: what stood in the way may be gone
        while result.run is not None and len(done) < MAX_FIXES:
            candidates = fixable(result, self.unsafe, self.request.selection)
            finding = next((found for found in candidates if mark_of(found) not in self.failed), None)
            if finding is None:
                if not again:
                    break
                self.failed, again = {}, False
                continue
            try:
                state, result, made = self.attempt(state, result, finding)
            except Refused as reason:
                self.failed[mark_of(finding)] = str(reason)
            else:
                done += made
                self.seen.add(state.texts)
                again = bool(self.failed)
        manual = [
            Manual(finding, self.failed.get(mark_of(finding), ""))
            for finding in result.findings
            if finding.fix is not None and self.request.selection.wants(finding.rule) and not self._waiting(finding)
        ]
        return Mended(self.before, result, start, state, done, manual)

    def _waiting(self, finding: Finding) -> bool:
        """Whether a fix is only waiting for ``--unsafe-fixes``."""
        fix = finding.fix
        return fix is not None and bool(fix.edits) and not fix.safe and not self.unsafe

    def _judged(self, state: State) -> Result:
        return judge(_request(self.request, state, self.bridge))

    def attempt(self, state: State, result: Result, finding: Finding) -> tuple[State, Result, list[Done]]:
        """One fix, and those that what it brings with it needs.

        Raises:
            Refused: it does not hold.
        """
        trial, made = self._apply(state, result, finding)
        after = self._judged(trial)
        if any(mark_of(found) == mark_of(finding) for found in after.findings):
            raise Refused("the fix does not take effect: another place decides")
        done = [made]
        visited = {state.texts, trial.texts}
        for _ in range(MAX_CHAIN):
            new = created(after, result)
            if not new:
                self._check_told(trial)
                return trial, after, done
            following = self._following(trial, after, new, visited)
            if following is None:
                raise Refused(f"it would lead to {new[0].rule.code}: {new[0].message}")
            trial, after, made = following
            visited.add(trial.texts)
            done.append(made)
        raise Refused("it leads from one problem to the next")

    def keeps_told(self, state: State) -> bool:
        """Whether the files of a state tell of the run what they told before."""
        try:
            self._check_told(state)
        except Refused:
            return False
        return True

    def _check_told(self, state: State) -> None:
        """What the files themselves tell of the run stays told: the next judgement must be of the same one."""
        context = self.before.context
        if context is None:
            return
        if directives_of(state.documents)[0] != directives_of(self.request.documents)[0]:
            raise Refused("a `# mbpack:` comment would go with it; move the comment to a place of its own")
        if context.sources.get("bridge") not in ("file", "default"):
            return
        if context_of(_request(self.request, state, None)).version.release != context.version.release:
            raise Refused(f"the file would no longer show that it is for {context.version.release}; name it with --bridge")

    def _following(
        self, state: State, result: Result, new: Collection[Finding], visited: Collection[tuple[str, ...]]
    ) -> tuple[State, Result, Done] | None:
        for finding in new:
            fix = finding.fix
            if fix is None or not fix.edits or not (fix.safe or self.unsafe):
                continue
            try:
                trial, made = self._apply(state, result, finding)
            except Refused:
                continue
            if trial.texts in visited:
                continue
            after = self._judged(trial)
            if all(mark_of(found) != mark_of(finding) for found in after.findings):
                return trial, after, made
        return None

    def _apply(self, state: State, result: Result, finding: Finding) -> tuple[State, Done]:
        fix = finding.fix
        assert fix is not None
        edits = located(result, fix)
        trial = state
        try:
            for edit in edits:
                trial = apply(trial, edit)
        except CannotEdit as reason:
            raise Refused(str(reason)) from None
        if trial.texts == state.texts or trial.texts in self.seen:
            raise Refused("another fix says otherwise; decide by hand")
        return trial, Done(finding, fix, edits)


def located(result: Result, fix: Fix) -> tuple[Edit, ...]:
    """The edits of a fix at the keys where the configuration holds the values."""
    return tuple(_located(result.run, edit) for edit in fix.edits)


def _located(run: Run | None, edit: Edit) -> Edit:
    """The edit at the key where this configuration holds the value: model settings may lie in ``model.transformer``."""
    if run is None or edit.op != "set" or not edit.key.startswith("model."):
        return edit
    found = run.settings.peek(edit.key)
    same_name = found is not None and found.key.rpartition(".")[2] == edit.key.rpartition(".")[2]
    return edit._replace(key=found.key) if found is not None and same_name else edit


def created(after: Result, before: Result) -> list[Finding]:
    """The errors of a judgement that the one before did not have, unless the rule could not be judged there."""
    known = {(finding.rule.code, finding.setting.key) for finding in before.findings if finding.outcome.severity == "error"}
    return [
        finding
        for finding in after.findings
        if finding.outcome.severity == "error"
        and (finding.rule.code, finding.setting.key) not in known
        and not _was_hidden(finding, before.run)
    ]


def _was_hidden(finding: Finding, run: Run | None) -> bool:
    """Whether a rule could not be judged before: the error is then uncovered, not made."""
    if run is None:
        return True
    try:
        for _ in finding.rule.check(run):
            pass
    except (Unknown, WrongKind):
        return True
    except NotImplementedError:
        return False
    return False
