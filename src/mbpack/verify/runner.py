"""One upstream selection run by pytest in its checkout, in a process group that always ends with us."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from msgspec import Struct, field

from mbpack.facts.upstream_tests import Selection

#: The interpreter upstream's commands use.
UV = ("uv", "run", "python")
#: Words by which a skip says that it wants a GPU.
_GPU = re.compile(
    r"\b(gpus?|cuda|nccl|nvshmem|hopper|blackwell|ampere|[abh][1-3]00|sm_?\d{2,3}|compute capability)\b", re.IGNORECASE
)
#: What torch says where a test asks for a GPU without checking first: the machine fails, not the test.
_NO_GPU = re.compile(
    "Torch not compiled with CUDA enabled|No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device", re.IGNORECASE
)
_DONE = re.compile(r"::.*\s(PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")
_TAIL_LINES = 20
#: Seconds a process gets to end by itself after being asked to.
_GRACE = 5.0
#: pytest's exit codes that mean something else than "some tests failed".
_EXITS = {
    2: "pytest stopped before running tests",
    3: "pytest had an internal error",
    4: "pytest was used wrongly",
    5: "no test was selected",
}


class RunnerError(RuntimeError):
    """The command cannot be started at all; the message is one line."""


class Skip(Struct, frozen=True):
    """A skipped test, the reason it gives, and whether that reason is a missing GPU."""

    test: str
    reason: str
    gpu: bool


class Outcome(Struct, frozen=True):
    """What one run said. ``state``: passed, failed, skipped (nothing ran), timeout or broken (no result at all)."""

    state: str
    command: str
    seconds: float
    passed: int = 0
    failures: tuple[tuple[str, str], ...] = ()  # test, first line of the message
    skips: tuple[Skip, ...] = ()
    note: str = ""
    tail: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether nothing failed, and something passed or only a GPU was missing."""
        return self.state == "passed" or (self.state == "skipped" and all(skip.gpu for skip in self.skips))


class _Tally(Struct):
    passed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    without_gpu: int = 0  # of the skips, those that failed at the first call of a GPU


def wants_gpu(reason: str) -> bool:
    """Whether a skip's reason is a missing GPU."""
    return bool(_GPU.search(reason))


def arguments(selection: Selection, python: Sequence[str]) -> list[str]:
    """The command of a selection with a given interpreter."""
    words = [*python, "-m", *selection.modules.split(), selection.path]
    return [*words, "-k", selection.keyword] if selection.keyword else words


def run(
    selection: Selection,
    root: Path,
    python: Sequence[str],
    timeout: float,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Run one selection in the checkout. ``timeout`` in seconds; ``progress`` gets the number of tests done so far.

    Raises:
        RunnerError: the interpreter cannot be started.
        KeyboardInterrupt: after the tests were ended too.
    """
    words = arguments(selection, python)
    with tempfile.TemporaryDirectory(prefix="mbpack-verify-") as folder:
        report = Path(folder) / "report.xml"
        extra = ["-v", "--color=no", "-p", "no:cacheprovider", f"--junitxml={report}"]
        started = time.monotonic()
        output, code = _execute([*words, *extra], root, timeout, progress)
        seconds = time.monotonic() - started
        tally = _read(report)
    shown = " ".join([shlex.join(python), *selection.command.split(" ")[len(UV) :]])
    if code is None:
        note = f"stopped after {timeout:g} s"
        return Outcome("timeout", shown, seconds, note=note, tail=_tail(output))
    if tally is None:
        return Outcome("broken", shown, seconds, note=_why(code, output), tail=_tail(output))
    if code == 1 and tally.without_gpu and not tally.failures:
        code = 0
    failed = bool(tally.failures) or code != 0
    state = "failed" if failed else "passed" if tally.passed else "skipped" if tally.skips else "broken"
    note = _EXITS.get(code, "") if code else ""
    if code and not tally.failures and not note:
        note = f"pytest ended with exit code {code} although no test failed"
    return Outcome(
        "broken" if code == 5 else state,
        shown,
        seconds,
        tally.passed,
        tuple(tally.failures),
        tuple(tally.skips),
        note,
        _tail(output) if failed else (),
    )


def _execute(words: Sequence[str], root: Path, timeout: float, progress: Callable[[int], None]) -> tuple[list[str], int | None]:
    """The lines a command printed and its exit code; None when it had to be stopped."""
    try:
        process = subprocess.Popen(
            list(words),
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    except OSError as error:
        raise RunnerError(
            f"{words[0]}: cannot be started ({error.strerror or error}); name an interpreter with --python"
        ) from None
    lines: list[str] = []
    reader = threading.Thread(target=_listen, args=(process, lines, progress), daemon=True)
    reader.start()
    try:
        code: int | None = process.wait(timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        code = None
    except BaseException:
        _end(process)
        raise
    reader.join(_GRACE)
    return lines, code


def _listen(process: subprocess.Popen[str], lines: list[str], progress: Callable[[int], None]) -> None:
    done = 0
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if _DONE.search(line):
            done += 1
            progress(done)


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the whole group to end as Ctrl-C would, then make it."""
    if not hasattr(os, "killpg"):
        process.kill()
        return
    for sign, patience in ((signal.SIGINT, _GRACE), (signal.SIGKILL, _GRACE)):
        try:
            os.killpg(process.pid, sign)
        except (ProcessLookupError, PermissionError):
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def _read(report: Path) -> _Tally | None:
    """The report pytest wrote; None when it wrote none."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    tally = _Tally()
    for case in root.iter("testcase"):
        name = "::".join(part for part in (case.get("classname", "").rpartition(".")[2], case.get("name", "")) if part)
        bad = [child for child in case if child.tag in ("failure", "error")]
        skip = next((child for child in case if child.tag == "skipped"), None)
        message = _first_line(bad[0]) if bad else ""
        if _NO_GPU.search(message):
            tally.skips.append(Skip(name, f"{message} (failed instead of skipping)", True))
            tally.without_gpu += 1
        elif bad:
            tally.failures.append((name, message))
        elif skip is not None:
            reason = skip.get("message") or "no reason given"
            tally.skips.append(Skip(name, reason, wants_gpu(reason)))
        else:
            tally.passed += 1
    return tally


def _first_line(node: ElementTree.Element) -> str:
    """What went wrong, in a line: a collection error says it on its last line, a failure on its first."""
    message = (node.get("message") or "").strip()
    if message.startswith(("collection failure", "failed on setup")) and node.text:
        wrong = [line[1:].strip() for line in node.text.splitlines() if line.startswith("E ")]
        message = wrong[-1] if wrong else message
    return message.splitlines()[0][:300] if message else "no message"


def _why(code: int, output: Sequence[str]) -> str:
    last = next((line.strip() for line in reversed(output) if line.strip()), "")
    reason = _EXITS.get(code) or (f"ended by signal {-code}" if code < 0 else f"exit code {code}")
    return f"{reason}: {last[:200]}" if last else reason


def _tail(output: Sequence[str]) -> tuple[str, ...]:
    return tuple(output[-_TAIL_LINES:])
