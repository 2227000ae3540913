"""`mbpack verify`: upstream's own tests for what a configuration uses."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError
from mbpack.cli.project import project_settings
from mbpack.cli.session import Options, Unit, requests
from mbpack.config.context import ContextError, Given, check_value
from mbpack.engine.doctor import Request, judge
from mbpack.engine.features import used_features
from mbpack.facts.releases import DEFAULT, Release, parse_version
from mbpack.facts.upstream_tests import FEATURES
from mbpack.verify.checkout import Checkout, CheckoutError, around, open_checkout
from mbpack.verify.progress import Progress
from mbpack.verify.runner import UV, RunnerError, run
from mbpack.verify.selection import Checked, plan
from mbpack.verify.summary import Report, Step, data, text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    config: Annotated[str | None, typer.Argument(metavar="[CONFIG]", show_default=False)] = None,
    repo: Annotated[str | None, typer.Option(metavar="DIR", help="Megatron-Bridge checkout; else the one around here.")] = None,
    run_tests: Annotated[bool, typer.Option("--run", help="Run the tests in the checkout, one selection after another.")] = False,
    bridge: Annotated[str | None, typer.Option(help="Release, such as 0.6; else the checkout's own.")] = None,
    feature: Annotated[list[str] | None, typer.Option(help=f"Only tests of this feature: {', '.join(FEATURES)}.")] = None,
    python: Annotated[str | None, typer.Option(help="Interpreter for --run instead of `uv run python`.")] = None,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds one selection may take.")] = 1800,
    gpu_tests: Annotated[bool, typer.Option("--gpu-tests", help="Run those that need GPUs too.")] = False,
    output_format: Annotated[str, typer.Option("--format", metavar=choice(TEXT_JSON), help="How it is printed.")] = "text",
) -> int:
    """Upstream's own tests for a configuration, or for all packing features: printed, checked in a checkout, or run."""
    try:
        report = _prepare(config, repo, bridge, feature)
        check_choice("--format", output_format, TEXT_JSON)
        if run_tests:
            if report.checkout is None:
                raise InputError("--run needs a checkout: name it with --repo DIR")
            report = _run(report, report.checkout, _interpreter(python), timeout, gpu_tests)
    except (InputError, ContextError, CheckoutError, RunnerError) as error:
        print(f"mbpack verify: {error}", file=sys.stderr)
        return 2
    if output_format == "json":
        import json

        print(json.dumps(data(report), indent=1, ensure_ascii=False))
    else:
        from mbpack.report.style import style_for

        print(text(report, style_for().paint))
    return 130 if report.interrupted else 0 if report.good else 1


class _Subject(Struct, frozen=True):
    """What a configuration says: its features, its release, and where that comes from."""

    features: frozenset[str]
    release: Release
    source: str


def _prepare(config: str | None, repo: str | None, bridge: str | None, names: list[str] | None) -> Report:
    if bridge is not None:
        check_value("bridge", bridge, "--bridge")
    chosen = _features(names or [])
    project, _ = project_settings()
    checkout = _checkout(repo, bridge)
    subject = _subject(config, bridge, project, checkout) if config is not None else None
    release, source = _release(bridge, checkout, subject, project)
    features: tuple[str, ...] | None = chosen or None
    if features is None and subject is not None:
        features = tuple(name for name in FEATURES if name in subject.features)
    notes = []
    if repo is None and checkout is not None:
        notes.append("no --repo given: the checkout around the current directory is used")
    if subject is not None and subject.release is not release and subject.source != "default":
        notes.append(f"{config} is for {subject.release} ({subject.source}), the tests below are those of {release}")
    checked, corrected = plan(release, features, checkout)
    steps = [Step(entry) for entry in checked]
    return Report(release, source, config, features, checkout, steps, corrected, notes=tuple(notes))


def _features(names: list[str]) -> tuple[str, ...]:
    found = [name.strip().replace("-", "_") for entry in names for name in entry.split(",") if name.strip()]
    for name in found:
        if name not in FEATURES:
            raise InputError(f"--feature {name}: not known; use {', '.join(FEATURES)}")
    return tuple(name for name in FEATURES if name in found)


def _checkout(repo: str | None, bridge: str | None) -> Checkout | None:
    if repo is not None:
        return open_checkout(repo, bridge)
    here = around(Path.cwd())
    return open_checkout(os.path.relpath(here), bridge) if here is not None else None


def _release(bridge: str | None, checkout: Checkout | None, subject: _Subject | None, project: Given) -> tuple[Release, str]:
    if bridge is not None:
        return parse_version(bridge).release, "--bridge"
    if checkout is not None:
        return checkout.release, "the checkout's release"
    if subject is not None and subject.source != "default":
        return subject.release, f"from the {subject.source}"
    if project.bridge is not None:
        return parse_version(project.bridge).release, "from pyproject.toml"
    return DEFAULT, "assumed: the newest that mbpack has run; --bridge names another"


def _subject(config: str, bridge: str | None, project: Given, checkout: Checkout | None) -> _Subject:
    wanted = _requests(config, Given(bridge), project)
    results = [judge(request) for request in wanted]
    told = next((r.context for r in results if r.context is not None), None)
    if checkout is not None and told is not None and told.sources.get("bridge") == "default":
        results = [judge(replace(request, flags=Given(checkout.release.name))) for request in wanted]
    features: set[str] = set()
    for result in results:
        if result.run is None or result.context is None:
            raise InputError(f"{config}: cannot be used as a configuration; `mbpack doctor {config}` says why")
        features |= used_features(result.run)
    context = results[0].context
    assert context is not None
    source = told.sources.get("bridge", "default") if told is not None else "default"
    return _Subject(frozenset(features), context.version.release, source)


def _requests(config: str, flags: Given, project: Given) -> list[Request]:
    if config != "-" and not os.path.exists(config):
        raise InputError(f"{config}: no such file")
    if os.path.isdir(config):
        raise InputError(f"{config}: a directory; name the configuration (a checkout is named with --repo)")
    return list(requests(Unit((config,)), Options(flags=flags, project=project)))


def _interpreter(python: str | None) -> list[str]:
    if python is None:
        return list(UV)
    try:
        words = shlex.split(python)
    except ValueError as error:
        raise InputError(f"--python {python}: {error}") from None
    if not words:
        raise InputError("--python is empty: name an interpreter, such as .venv/bin/python")
    # the tests run in the checkout, the path was written here
    return [os.path.abspath(words[0]) if os.sep in words[0] else words[0], *words[1:]]


def _run(report: Report, checkout: Checkout, python: list[str], timeout: int, gpu_tests: bool) -> Report:
    done: list[Step] = []
    interrupted = False
    waiting = [step for step in report.steps if _left_out(step.checked, gpu_tests) == ""]
    with Progress(len(waiting)) as progress, _terminated_as_interrupted():
        for step in report.steps:
            why = "interrupted" if interrupted else _left_out(step.checked, gpu_tests)
            if why:
                done.append(replace(step, left_out=why))
                continue
            progress.begin(step.checked.selection, step.checked.found)
            try:
                outcome = run(step.checked.selection, checkout.root, python, timeout, progress.advance)
            except KeyboardInterrupt:
                interrupted = True
                done.append(replace(step, left_out="interrupted"))
                continue
            done.append(replace(step, outcome=outcome))
    interpreter = "" if python == list(UV) else shlex.join(python)
    return replace(report, steps=done, ran=True, interrupted=interrupted, interpreter=interpreter)


def _left_out(checked: Checked, gpu_tests: bool) -> str:
    if not checked.runnable:
        return "nothing to run"
    if checked.selection.gpus and not gpu_tests:
        return f"needs {checked.selection.gpus} GPUs (--gpu-tests)"
    return ""


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A request to end (as a scheduler sends it) ends the tests too, the way Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
