"""Run mutants against the tests: one process that has collected them, and a fork of it for every mutant.

Which tests can notice a mutant is measured, not guessed: the tests run once with a coverage context each, and a mutant inside
a function meets the tests that execute its statement, those that reach the rarest lines around it first. Statements that run
at import meet all tests, in a fork that imports the mutated module afresh.
"""

from __future__ import annotations

import ast
import gc
import importlib
import os
import pickle
import re
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from . import swap
from .population import ROOMS, ROOT, SOURCES, Mutant, modules

TESTS = (
    *("tests/facts", "--ignore=tests/facts/test_maintainer_tools.py", "tests/rules"),
    *("tests/config/test_in_effect.py", "tests/config/test_recognise.py", "tests/config/test_overrides.py"),
    "tests/mutation/recorded_slice.py",
)
PYTEST = ("-x", "-p", "no:cacheprovider", "--rootdir", str(ROOT))
#: Tests that take longer than this, in seconds with coverage measured, are no part of the run.
SLOW = 1.0
#: Processor seconds a mutant may take beyond three times what its tests take unmutated.
GRACE = 15.0
MEMORY = 4 << 30
#: Tests that a mutant meets, the likeliest to notice it first. More would kill a few more: the score is a lower bound.
MOST = 900
KILLED, SURVIVED, UNREACHED, TIMEOUT, CRASHED = "killed", "survived", "not reached", "timeout", "no import"
OTHER = "needs an import"


@dataclass
class Baseline:
    """What the tests do without a mutant: their names, times in seconds, and the lines each executes."""

    names: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    covers: dict[str, dict[int, set[int]]] = field(default_factory=dict)  # file -> line -> tests
    imported: dict[str, set[int]] = field(default_factory=dict)  # file -> lines that ran while the tests were collected

    def quick(self) -> list[int]:
        return [test for test, seconds in enumerate(self.times) if seconds <= SLOW]


@dataclass
class Answer:
    """What became of a mutant."""

    mutant: Mutant
    outcome: str
    tests: int  # that could have noticed it
    seconds: float


def run(mutants: Sequence[Mutant], progress: Callable[[Answer], None]) -> list[Answer]:
    """Run mutants; each answer is told as soon as it is known, those that need a fresh import last.

    Raises:
        RuntimeError: the tests do not pass on the unmutated code.
    """
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store")
        _fork(lambda: _warm(mutants, store, progress), wall=None)
        with store.open("rb") as stream:
            baseline: Baseline = pickle.load(stream)
            if baseline.failed:
                raise RuntimeError(f"tests fail on the unmutated code: {', '.join(baseline.failed[:5])}")
            answers = [pickle.load(stream) for _ in mutants]
    for number, answer in enumerate(answers):
        if isinstance(answer, Mutant):
            answers[number] = _afresh(answer, baseline)
            progress(answers[number])
    return answers


def prepare() -> None:
    """Load what every fork needs, nothing of mbpack."""
    assert not any(name == "mbpack" or name.startswith("mbpack.") for name in sys.modules)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    os.chdir(ROOT)
    for name in ("msgspec", "yaml", "omegaconf", "hydra", "hydra.core.override_parser.overrides_parser", "numpy", "typer"):
        importlib.import_module(name)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    checks = list(hypothesis.HealthCheck)
    hypothesis.settings.register_profile(
        "mutation", derandomize=True, database=None, deadline=None, phases=phases, suppress_health_check=checks
    )
    hypothesis.settings.load_profile("mutation")


def _warm(mutants: Sequence[Mutant], store: Path, tell: Callable[[Answer], None]) -> int:
    """Collect the tests, measure them, and run every mutant that needs no import."""
    measure = _coverage()
    measure.start()
    plugin = _Warm(mutants, store, measure, tell)
    return _pytest(plugin)


def _pytest(plugin: object) -> int:
    """Run pytest in this fork, silently."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    return int(pytest.main([*PYTEST, *TESTS], plugins=[plugin]))


class _Warm:
    def __init__(
        self, mutants: Sequence[Mutant], store: Path, measure: coverage.Coverage, tell: Callable[[Answer], None]
    ) -> None:
        self.mutants, self.store, self.measure, self.tell = mutants, store, measure, tell

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for module in modules():
            importlib.import_module(f"mbpack.{module.replace('/', '.')}")
        self.measure.stop()
        data = self.measure.get_data()
        imported = {name: set(data.lines(name) or ()) for name in data.measured_files()}
        baseline = _measure(session.items)
        baseline.imported = imported
        living = swap.living_functions(SOURCES)
        swap.forget()
        gc.collect()
        gc.freeze()
        with self.store.open("wb") as stream:
            pickle.dump(baseline, stream)
            for mutant in self.mutants if not baseline.failed else ():
                bodies = _bodies(mutant, baseline, living)
                if bodies is None:
                    answer = _by_values(mutant, baseline, session.items)
                else:
                    answer = _in_place(mutant, bodies, baseline, living, session.items)
                pickle.dump(answer or mutant, stream)
                if answer is not None:
                    self.tell(answer)
        return True


def _measure(items: Sequence[pytest.Item]) -> Baseline:
    """Run every test once, in a fork."""
    with tempfile.NamedTemporaryFile() as result:

        def child() -> int:
            swap.forget()
            baseline, measure = Baseline(), _coverage()
            measure.start()
            for number, (item, following) in enumerate(_pairs(items)):
                measure.switch_context(str(number))
                start = time.process_time()
                reports = runtestprotocol(item, log=False, nextitem=following)
                baseline.names.append(item.nodeid)
                baseline.times.append(time.process_time() - start)
                if not all(report.passed for report in reports):
                    baseline.failed.append(item.nodeid)
            measure.stop()
            data = measure.get_data()
            for name in data.measured_files():
                lines = data.contexts_by_lineno(name)
                baseline.covers[name] = {line: {int(c) for c in contexts if c} for line, contexts in lines.items()}
            Path(result.name).write_bytes(pickle.dumps(baseline))
            return 0

        _fork(child, wall=None)
        return pickle.loads(Path(result.name).read_bytes())


def _bodies(mutant: Mutant, baseline: Baseline, living: Any) -> Any:
    """New bodies for living functions, or None: the mutant needs a fresh import."""
    ran_at_import = baseline.imported.get(str(mutant.path), set())
    first, last = mutant.statement
    bodies = swap.new_bodies(mutant.path, mutant.path.read_text(), mutant.source(), living)
    return None if bodies is None or ran_at_import & set(range(first, last + 1)) else bodies


def _in_place(mutant: Mutant, bodies: Any, baseline: Baseline, living: Any, items: Sequence[pytest.Item]) -> Answer:
    lines, quick = baseline.covers.get(str(mutant.path), {}), set(baseline.quick())
    first, last = mutant.statement
    able = {test for line in range(first, last + 1) for test in lines.get(line, ())} & quick
    if not able:
        return Answer(mutant, UNREACHED, 0, 0.0)
    order = _ranked(able, [(str(mutant.path), *_function_around(mutant))], baseline, mutant)[:MOST]

    def child() -> int:
        _limit(3 * sum(baseline.times[test] for test in order) + GRACE)
        swap.give(bodies, living)
        swap.forget()
        return _first_failure([items[test] for test in order])

    return _judge(mutant, child, len(order))


def _by_values(mutant: Mutant, baseline: Baseline, items: Sequence[pytest.Item]) -> Answer | None:
    """A mutant at import, tried on living values; None when it changes more than plain values."""
    order = _ranked(set(baseline.quick()), list(_scopes(mutant)), baseline, mutant)[:MOST]

    def child() -> int:
        _limit(3 * sum(baseline.times[test] for test in order) + GRACE)
        from mbpack.rules.base import Rule

        if not swap.set_plain(sys.modules[mutant.dotted], mutant.source(), Rule):
            return 4
        swap.forget()
        return _first_failure([items[test] for test in order])

    answer = _judge(mutant, child, len(order))
    return None if answer.outcome == OTHER else answer


def _first_failure(items: Sequence[pytest.Item]) -> int:
    for item, following in _pairs(items):
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            return 1
    return 0


def _afresh(mutant: Mutant, baseline: Baseline) -> Answer:
    """Run a mutant that needs its module imported, against all tests, the likeliest first."""
    order = _ranked(set(baseline.quick()), list(_scopes(mutant)), baseline, mutant)[:MOST]
    names = {baseline.names[test]: place for place, test in enumerate(order)}

    def child() -> int:
        _limit(3 * sum(baseline.times[test] for test in order) + GRACE)
        swap.Importer(mutant.dotted, mutant.path, mutant.source()).install()
        code = _pytest(_Order(names))
        return code if code in (0, 1) else 2

    return _judge(mutant, child, len(order))


class _Order:
    def __init__(self, places: dict[str, int]) -> None:
        self.places = places

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.places), key=lambda item: self.places[item.nodeid])
        assert len(items) >= 0.9 * len(self.places), "tests that exist without the mutant are gone"


def _judge(mutant: Mutant, child: Callable[[], int], tests: int) -> Answer:
    start = time.monotonic()
    code = _fork(child, wall=300)
    outcome = {0: SURVIVED, 1: KILLED, 2: CRASHED, 4: OTHER, None: TIMEOUT}.get(code, KILLED)
    return Answer(mutant, outcome, tests, time.monotonic() - start)


def _fork(child: Callable[[], int], wall: int | None) -> int | None:
    """The exit code of a function run in a fork; None when it ran out of time."""
    sys.stdout.flush()
    sys.stderr.flush()
    number = os.fork()
    if number == 0:
        code = 3
        try:
            if wall is not None:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(wall)
            code = child()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 3
        except BaseException:  # a mutant may raise anything; in the fork without a limit it is told
            if wall is None:
                import traceback

                traceback.print_exc()
            code = 1
        finally:
            os._exit(code)
    _, status = os.waitpid(number, 0)
    if os.WIFSIGNALED(status):
        return None if os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL) else 1
    return os.WEXITSTATUS(status)


def _limit(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _coverage() -> coverage.Coverage:
    return coverage.Coverage(data_file=None, config_file=False, include=[f"{SOURCES}/{room}/*" for room in ROOMS], messages=False)


def _pairs(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


def _ranked(tests: Iterable[int], scopes: list[tuple[str, int, int]], baseline: Baseline, mutant: Mutant) -> list[int]:
    """Tests: those named after the module or of the room of facts, then those that reach rare lines of the scopes."""
    room, stem = mutant.module.split("/", 1)
    stem = stem.rpartition("/")[2]
    marks = (stem, "tests/facts/") if room == "facts" else (stem,)
    score: dict[int, float] = defaultdict(float)
    for path, first, last in scopes:
        for line, reaching in baseline.covers.get(path, {}).items():
            if first <= line <= last:
                for test in reaching:
                    score[test] += 1 / len(reaching)
    far = {test: not any(mark in baseline.names[test] for mark in marks) for test in tests}
    return sorted(far, key=lambda test: (far[test], -score[test], baseline.times[test]))


def _function_around(mutant: Mutant) -> tuple[int, int]:
    inside = [node for node in ast.walk(_tree(mutant)) if isinstance(node, ast.FunctionDef) and _holds(node, mutant.place[0])]
    return (inside[-1].lineno, inside[-1].end_lineno or 0) if inside else mutant.statement


def _scopes(mutant: Mutant) -> Iterator[tuple[str, int, int]]:
    """Where a mutant at import shows: in its class, or wherever the names that its statement binds are read."""
    for node in _tree(mutant).body:
        if not _holds(node, mutant.place[0]):
            continue
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield str(mutant.path), node.lineno, node.end_lineno or node.lineno
            continue
        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        word = re.compile(rf"\b({'|'.join(map(re.escape, names)) or 'no name'})\b")
        for path in SOURCES.rglob("*.py"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if word.search(line):
                    yield str(path), number, number


def _tree(mutant: Mutant) -> ast.Module:
    return ast.parse(mutant.path.read_text())


def _holds(node: ast.stmt, line: int) -> bool:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return first <= line <= (node.end_lineno or node.lineno)
