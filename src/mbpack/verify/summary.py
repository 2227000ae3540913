"""The report of `verify`: as text to read, as commands to copy, and as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from mbpack import __version__
from mbpack.facts.releases import Release
from mbpack.facts.upstream_tests import Selection
from mbpack.verify.checkout import Checkout
from mbpack.verify.runner import Outcome
from mbpack.verify.selection import Checked, Corrected

Paint = Callable[[str, str], str]
_SHOWN_SKIPS = 5


class Step(Struct, frozen=True):
    """One selection, what the checkout says about it, and what its run said; ``left_out`` says why there was no run."""

    checked: Checked
    outcome: Outcome | None = None
    left_out: str = ""

    @property
    def good(self) -> bool:
        """Whether everything is as expected so far."""
        return self.checked.good and (self.outcome is None or (self.outcome.good and not self.short))

    @property
    def short(self) -> int:
        """How many of the tests that are written out did not take part in the run."""
        if self.outcome is None or self.checked.found is None or self.outcome.state in ("broken", "timeout"):
            return 0
        return max(0, self.checked.found - self.outcome.passed - len(self.outcome.failures) - len(self.outcome.skips))


class Report(Struct, frozen=True):
    """Everything `verify` has to say."""

    release: Release
    release_source: str  # "--bridge", the file that states it, ...
    subject: str | None  # the configuration, None for everything
    features: tuple[str, ...] | None
    checkout: Checkout | None
    steps: Sequence[Step]
    corrected: Sequence[Corrected]
    ran: bool = False
    interrupted: bool = False
    interpreter: str = ""  # where another than upstream's ran the tests
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether all is as expected."""
        return all(step.good for step in self.steps) and not self.interrupted


def plain(kind: str, text: str) -> str:
    """No colour."""
    return text


# ------------------------------------------------------------------ text


def text(report: Report, paint: Paint = plain) -> str:
    """The report as text: with a checkout, what was found; without one, commands to copy."""
    return "\n".join(_checked(report, paint) if report.checkout is not None else _commands(report, paint))


def _commands(report: Report, paint: Paint) -> Iterator[str]:
    """Lines that can be pasted into a shell as they are: everything but the commands is a comment."""
    yield paint("dim", f"# {_title(report)}; run in its checkout, one by one (not joined with &&)")
    yield from (paint("dim", f"# {note}") for note in report.notes)
    for step in report.steps:
        yield ""
        yield paint("dim", f"# {_covers(step.checked.selection)}")
        yield step.checked.selection.command
    if not report.steps:
        yield paint("dim", f"# {_nothing(report)}")
    yield from _corrections(report, paint, "# ")
    yield ""
    yield paint("dim", "# with a checkout at hand: mbpack verify --repo DIR checks them, --run runs them")


def _covers(selection: Selection) -> str:
    needs = f", needs {selection.gpus} GPUs" if selection.gpus else ""
    number = "" if selection.expected is None else f": {_tests(selection.expected)}"
    return f"{selection.covers}{number}{needs}"


def _tests(number: int) -> str:
    return f"{number} test" if number == 1 else f"{number} tests"


def _checked(report: Report, paint: Paint) -> Iterator[str]:
    assert report.checkout is not None
    yield paint("bold", _title(report))
    yield f"checkout {report.checkout.root}: {_version(report.checkout)}"
    if report.interpreter:
        yield f"run with {report.interpreter} instead of `uv run python`"
    yield from (f"note     {note}" for note in (*report.notes, report.checkout.note) if note)
    yield ""
    width = max((len(_state(step)) for step in report.steps), default=0)
    for step in report.steps:
        yield from _step(step, width, paint)
    if not report.steps:
        yield _nothing(report)
    yield from _corrections(report, paint, "")
    yield ""
    yield paint("good" if report.good else "error", _total(report))


def _title(report: Report) -> str:
    uses = "all packing features" if report.features is None else ", ".join(report.features) or "no packing feature"
    subject = f"{report.subject} (uses {uses})" if report.subject else uses
    return f"Upstream tests of Megatron-Bridge {report.release} ({report.release_source}) for {subject}"


def _version(checkout: Checkout) -> str:
    return f"{checkout.version} by {checkout.source}" if checkout.version is not None else "states no version"


def _nothing(report: Report) -> str:
    return "no upstream test covers this: no packing and no context parallelism was found in it"


def _state(step: Step) -> str:
    if step.outcome is not None:
        return step.outcome.state.upper() if not step.good else step.outcome.state
    return step.checked.state if step.good else step.checked.state.upper()


def _step(step: Step, width: int, paint: Paint) -> Iterator[str]:
    checked, outcome = step.checked, step.outcome
    indent = " " * (width + 2)
    state = paint("good" if step.good else "error", f"{_state(step):<{width}}")
    yield f"{state}  {checked.selection.command}"
    yield indent + paint("dim", f"{_numbers(step)}  {checked.selection.covers}")
    if checked.note:
        yield f"{indent}{checked.note}"
    if step.left_out:
        yield f"{indent}not run: {step.left_out}"
    if outcome is None:
        return
    if outcome.note:
        yield f"{indent}{outcome.note}"
    if step.short:
        yield f"{indent}{_tests(step.short)} of the file did not take part: deselected, or not collected here"
    for test, message in outcome.failures:
        yield f"{indent}{paint('error', 'failed')}  {test}: {message}"
    yield from (f"{indent}{line}" for line in _skips(outcome))
    if outcome.state in ("broken", "timeout"):
        yield from (f"{indent}| {line}" for line in outcome.tail[-8:])


def _numbers(step: Step) -> str:
    outcome, checked = step.outcome, step.checked
    if outcome is not None and outcome.state not in ("broken", "timeout"):
        skipped = f", {len(outcome.skips)} skipped" if outcome.skips else ""
        failed = f", {len(outcome.failures)} failed" if outcome.failures else ""
        of = f" of {checked.found}" if checked.found is not None and checked.found != outcome.passed else ""
        return f"{outcome.passed}{of} passed{skipped}{failed} in {outcome.seconds:.0f} s"
    return _found(checked)


def _found(checked: Checked) -> str:
    if checked.state in ("missing", "unreadable", "uncounted"):
        return "no such file" if checked.state == "missing" else "cannot be counted"
    number = "" if checked.found is None else ("" if checked.exact else "at least ") + _tests(checked.found)
    expected = checked.selection.expected
    if expected is None:
        return number
    return number if checked.found == expected else f"{number} (expected {expected})"


def _skips(outcome: Outcome) -> Iterator[str]:
    reasons: dict[tuple[bool, str], int] = {}
    for skip in outcome.skips:
        key = (skip.gpu, skip.reason)
        reasons[key] = reasons.get(key, 0) + 1
    for (gpu, reason), number in list(reasons.items())[:_SHOWN_SKIPS]:
        yield f"skipped  {number}: {'needs a GPU: ' if gpu else ''}{reason}"
    if len(reasons) > _SHOWN_SKIPS:
        yield f"skipped  {len(reasons) - _SHOWN_SKIPS} more reasons (--format json)"


def _corrections(report: Report, paint: Paint, mark: str) -> Iterator[str]:
    if not report.corrected:
        return
    yield ""
    yield f"{mark}Commands of the public packing skill that are wrong in {report.release}, and what to run instead:"
    for entry in report.corrected:
        correction = entry.correction
        here = ""
        if entry.published is not None:
            here = f"; here: {_found(entry.published)}" + (f" ({entry.published.note})" if entry.published.note else "")
        same = correction.instead is not None and correction.instead.command == correction.published
        yield f"{mark}  {correction.published}" if same else paint("error", f"{mark}- {correction.published}")
        yield f"{mark}  {correction.why}{here}"
        if correction.instead is not None and not same:
            found = f"   # {_found(entry.instead)}" if entry.instead is not None and _found(entry.instead) else ""
            yield paint("good", f"{mark}+ {correction.instead.command}") + found


def _total(report: Report) -> str:
    good = sum(step.good for step in report.steps)
    if not report.ran:
        bad = len(report.steps) - good
        done = f"{good} of {len(report.steps)} selections are as expected"
        return done + (f", {bad} not" if bad else "; --run runs them")
    outcomes = [step.outcome for step in report.steps if step.outcome is not None]
    skips = [skip for outcome in outcomes for skip in outcome.skips]
    gpu = sum(skip.gpu for skip in skips)
    parts = [f"{sum(outcome.passed for outcome in outcomes)} tests passed"]
    parts.append(f"{sum(len(outcome.failures) for outcome in outcomes)} failed")
    parts += [f"{gpu} skipped for want of a GPU"] if gpu else []
    parts += [f"{len(skips) - gpu} skipped for other reasons"] if len(skips) > gpu else []
    left = sum(bool(step.left_out) for step in report.steps)
    ended = f"; {left} not run" if left else ""
    stopped = "; interrupted" if report.interrupted else ""
    return f"{', '.join(parts)}; {good} of {len(report.steps)} selections are as expected{ended}{stopped}"


# ------------------------------------------------------------------ data


def data(report: Report) -> dict[str, Any]:
    """The report as plain data (schema_version 1)."""
    outcomes = [step.outcome for step in report.steps if step.outcome is not None]
    skips = [skip for outcome in outcomes for skip in outcome.skips]
    checkout = report.checkout
    return {
        "schema_version": 1,
        "mbpack": __version__,
        "release": report.release.name,
        "release_source": report.release_source,
        "config": report.subject,
        "features": None if report.features is None else list(report.features),
        "checkout": None
        if checkout is None
        else {"path": str(checkout.root), "version": checkout.version, "source": checkout.source or None},
        "notes": [note for note in (*report.notes, checkout.note if checkout else "") if note],
        "selections": [_step_data(step) for step in report.steps],
        "corrections": [_corrected_data(entry) for entry in report.corrected],
        "summary": {
            "selections": len(report.steps),
            "as_expected": sum(step.good for step in report.steps),
            "ran": report.ran,
            "interrupted": report.interrupted,
            "passed": sum(outcome.passed for outcome in outcomes),
            "failed": sum(len(outcome.failures) for outcome in outcomes),
            "skipped_gpu": sum(skip.gpu for skip in skips),
            "skipped_other": sum(not skip.gpu for skip in skips),
            "ok": report.good,
        },
    }


def _step_data(step: Step) -> dict[str, Any]:
    selection, outcome = step.checked.selection, step.outcome
    return {
        "path": selection.path,
        "keyword": selection.keyword or None,
        "command": selection.command,
        "covers": selection.covers,
        "features": sorted(selection.features),
        "gpus": selection.gpus,
        "expected": selection.expected,
        **_checked_data(step.checked),
        "as_expected": step.good,
        "not_run": step.left_out or None,
        "run": None
        if outcome is None
        else {
            "state": outcome.state,
            "command": outcome.command,
            "seconds": round(outcome.seconds, 1),
            "passed": outcome.passed,
            "failures": [{"test": test, "message": message} for test, message in outcome.failures],
            "not_collected": step.short,
            "skips": [{"test": skip.test, "reason": skip.reason, "needs_gpu": skip.gpu} for skip in outcome.skips],
            "note": outcome.note or None,
            "output": list(outcome.tail),
        },
    }


def _checked_data(checked: Checked) -> dict[str, Any]:
    return {"state": checked.state, "found": checked.found, "exact": checked.exact, "note": checked.note or None}


def _corrected_data(entry: Corrected) -> dict[str, Any]:
    correction = entry.correction
    return {
        "published": correction.published,
        "why": correction.why,
        "instead": correction.instead.command if correction.instead else None,
        "published_here": None if entry.published is None else _checked_data(entry.published),
        "instead_here": None if entry.instead is None else _checked_data(entry.instead),
    }
