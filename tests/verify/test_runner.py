"""Selections run by a real pytest."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mbpack.facts.upstream_tests import Selection
from mbpack.verify.runner import Outcome, RunnerError, run, wants_gpu

from .tree import package, write

MIXED = """
import unittest
import pytest

def test_fine(): ...

def test_wrong():
    assert 1 + 1 == 3, "sums differ"

@pytest.mark.skipif(True, reason="requires 2 CUDA devices")
def test_needs_gpu(): ...

def test_needs_library():
    pytest.skip("could not import 'nothing'")

@pytest.fixture
def broken():
    raise RuntimeError("no such thing")

def test_setup(broken): ...

@pytest.mark.xfail(reason="known")
def test_known():
    assert False
"""


@pytest.fixture(autouse=True)
def _plain_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pytest that is run has no plugins of this environment."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _run(root: Path, text: str, keyword: str = "", timeout: float = 60, counted: list[int] | None = None) -> Outcome:
    write(root, "tests/test_it.py", text)
    selection = Selection("tests/test_it.py", keyword, None, frozenset(), "made up")
    return run(selection, root, [sys.executable], timeout, (counted if counted is not None else []).append)


def test_every_kind_of_result_is_told_apart(tmp_path: Path) -> None:
    counted: list[int] = []
    outcome = _run(tmp_path, MIXED, counted=counted)
    assert (outcome.state, outcome.passed, outcome.good) == ("failed", 1, False)
    assert [(name.rpartition("::")[2], "sums differ" in text or "no such thing" in text) for name, text in outcome.failures] == [
        ("test_wrong", True),
        ("test_setup", True),
    ]
    assert [(skip.test.rpartition("::")[2], skip.gpu) for skip in outcome.skips] == [
        ("test_needs_gpu", True),
        ("test_needs_library", False),
        ("test_known", False),
    ]
    assert counted[-1] == 6


def test_a_keyword_selects(tmp_path: Path) -> None:
    outcome = _run(tmp_path, MIXED, "fine or needs_gpu")
    assert (outcome.state, outcome.passed, len(outcome.skips), outcome.good) == ("passed", 1, 1, True)
    assert outcome.command == f'{sys.executable} -m pytest tests/test_it.py -k "fine or needs_gpu"'


@pytest.mark.parametrize(
    ("keyword", "good"),
    [("needs_gpu", True), ("needs_library", False)],
)
def test_nothing_but_skips_is_good_only_for_want_of_a_gpu(tmp_path: Path, keyword: str, good: bool) -> None:
    outcome = _run(tmp_path, MIXED, keyword)
    assert (outcome.state, outcome.passed, outcome.good) == ("skipped", 0, good)


def test_a_test_that_fails_at_its_first_call_of_a_gpu_needs_one(tmp_path: Path) -> None:
    text = (
        "def test_fine(): ...\n\ndef test_cuda():\n    raise AssertionError('Torch not compiled with CUDA enabled')\n"
        "\ndef test_wrong():\n    assert False, 'CUDA result differs'\n"
    )
    outcome = _run(tmp_path, text, "fine or test_cuda")
    assert (outcome.state, outcome.passed, outcome.failures, outcome.good) == ("passed", 1, (), True)
    assert [(skip.gpu, "failed instead of skipping" in skip.reason) for skip in outcome.skips] == [(True, True)]
    outcome = _run(tmp_path, text)
    assert (outcome.state, len(outcome.failures), outcome.good) == ("failed", 1, False)


@pytest.mark.parametrize(
    ("reason", "gpu"),
    [
        ("CUDA not available", True),
        ("Requires >=2 GPUs for context_parallel_size=2", True),
        ("NCCL backend missing", True),
        ("needs sm_90", True),
        ("H100 only", True),
        ("transformers is too old", False),
        ("no reason", False),
    ],
)
def test_a_gpu_is_known_by_the_reason(reason: str, gpu: bool) -> None:
    assert wants_gpu(reason) is gpu


def test_a_collection_error_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    outcome = _run(tmp_path, "import nothing_of_this_name\n")
    assert outcome.state == "failed"
    assert "nothing_of_this_name" in outcome.failures[0][1]


def test_an_empty_selection_is_broken(tmp_path: Path) -> None:
    outcome = _run(tmp_path, "def test_a(): ...\n", "other")
    assert (outcome.state, outcome.good) == ("broken", False)
    assert "no test was selected" in outcome.note


def test_a_pytest_that_does_not_start_is_broken_with_its_last_words(tmp_path: Path) -> None:
    outcome = _run(tmp_path, "import os\nos._exit(9)\n")
    assert (outcome.state, outcome.good) == ("broken", False)
    assert "exit code 9" in outcome.note


def test_a_missing_interpreter_is_one_line(tmp_path: Path) -> None:
    selection = Selection("tests/test_it.py", "", None, frozenset(), "made up")
    with pytest.raises(RunnerError, match="no-such-python: cannot be started"):
        run(selection, tmp_path, ["no-such-python"], 5)


def test_a_timeout_ends_children_too(tmp_path: Path) -> None:
    selection = Selection("tests/test_it.py", "", None, frozenset(), "made up")
    outcome = run(selection, tmp_path, ["sh", "-c", "sleep 600 & echo $! > child; wait", "sh"], 3)
    assert (outcome.state, outcome.good, outcome.passed) == ("timeout", False, 0)
    assert "3 s" in outcome.note
    assert _ended(int((tmp_path / "child").read_text()))


def test_ctrl_c_ends_the_tests_and_reports(tmp_path: Path) -> None:
    package(tmp_path, 0, 6, 0)
    slow = (
        "import os, pathlib, pytest, time\n\n@pytest.mark.parametrize('n', range(19))\ndef test_slow(n):\n"
        "    pathlib.Path('started').write_text(str(os.getpid()))\n    time.sleep(600)\n"
    )
    write(tmp_path, "tests/unit_tests/training/utils/test_packed_seq_utils.py", slow)
    words = [sys.executable, "-m", "mbpack", "verify", "--repo", str(tmp_path), "--run", "--python", sys.executable]
    # Jobs in the background of a script have SIGINT ignored, which the child would inherit.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    started = tmp_path / "started"
    for _ in range(600):
        if started.exists() and started.read_text():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in out
    assert "Traceback" not in out + err
    assert _ended(int(started.read_text()))


def _ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be collected by its parent."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False
