"""Past crashes stay answered, a few inputs of every kind, and the fuzzing tools themselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mbpack.fix.state import State
from tests.conformance.rows import DATA

from . import checks, mutate
from .checks import problem, workshop
from .keep import dump, load, smallest
from .samples import RIGHT, TARGETS, WEIGHTS, Sample, sample

CRASHES = sorted((DATA / "crashes").glob("*.json"))
SLOW = {"answers": 4, "fixed": 6}


@pytest.fixture
def folder() -> Iterator[Path]:
    with workshop() as place:
        yield place


def doctor(data: bytes, *more: str, steady: bool = False) -> Sample:
    call = ("doctor", *more, "a.yaml")
    return Sample("document", (call, call) if steady else (call,), {"a.yaml": data}, steady=steady)


@pytest.mark.parametrize("path", CRASHES, ids=lambda path: path.stem)
def test_past_crashes_are_answered(path: Path, folder: Path) -> None:
    assert problem(load(path), folder) is None


@pytest.mark.parametrize(
    ("line", "times"), [("# mbpack: ignore[ALN101] x", 2500), ("# mbpack: gpus=many", 2500), ("k{n}: {{a: 1}}", 300)]
)
def test_many_findings_take_little_time(line: str, times: int, folder: Path) -> None:
    text = "# mbpack: bridge=0.6\nmodel: {seq_length: 4096}\n" + "\n".join(line.format(n=n) for n in range(times))
    assert problem(doctor(text.encode()), folder) is None


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_inputs_of_every_kind(name: str, folder: Path) -> None:
    for number in range(SLOW.get(name, 15)):
        assert problem(sample(3, number, name), folder) is None, f"python -m tests.fuzz.soak --show 3:{number} --only {name}"


def test_the_same_number_is_the_same_input() -> None:
    assert [sample(1, number) for number in range(40)] == [sample(1, number) for number in range(40)]
    assert sample(1, 5) != sample(2, 5)
    assert set(TARGETS) == set(WEIGHTS)
    assert sum(WEIGHTS.values()) == 100


def test_damage_changes_something_and_stays_small() -> None:
    rng, data = Random(1), b"model:\n  seq_length: 4096\n" * 40
    made = [mutate.bytes_of(rng, data) for _ in range(200)]
    assert len(set(made)) > 190
    assert max(map(len, made)) <= 1 << 18
    tree = {"a": {"b": [1, {"c": 2}]}, "d": "e"}
    assert len({repr(mutate.tree_of(rng, tree)) for _ in range(100)}) > 80
    assert tree == {"a": {"b": [1, {"c": 2}]}, "d": "e"}


def test_a_right_answer_is_no_problem(folder: Path) -> None:
    assert problem(doctor(RIGHT), folder) is None
    assert problem(doctor(RIGHT, "--fix", "--unsafe-fixes", steady=True), folder) is None
    assert problem(doctor(RIGHT, "--format", "junit"), folder) is None
    assert list(folder.iterdir()) == []


def test_defects_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(code: int, out: str = "", err: str = "") -> None:
        monkeypatch.setattr(checks, "call", lambda argv, stdin=b"": (code, out, err))

    def raises(argv: object, stdin: bytes = b"") -> None:
        State((), ()).overrides[3]

    cases = [
        ((70,), "doctor: exit code 70"),
        ((1, "warning INT101  rule X failed"), "doctor: an internal error is reported: warning INT101 rule X failed"),
        ((2,), "doctor: exit code 2 without a word"),
        ((1, "\x1b[2J"), "doctor: the text report holds an escape character"),
        ((1, "all is well"), None),
    ]
    for answer, expected in cases:
        answers(*answer)
        assert problem(doctor(RIGHT), folder) == expected
    answers(1, '{"a": NaN}')
    assert problem(doctor(RIGHT, "--format", "json"), folder) == "doctor: the json report cannot be read: ValueError"
    monkeypatch.setattr(checks, "call", raises)
    assert (problem(doctor(RIGHT), folder) or "").startswith("raised IndexError at ")


def test_a_slow_answer_and_a_restless_fix_are_defects(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (problem(doctor(RIGHT), folder, limit=0.0) or "").startswith("slow: doctor took ")

    def grows(argv: object, stdin: bytes = b"") -> tuple[int, str, str]:
        with open("a.yaml", "ab") as stream:
            stream.write(b"#\n")
        return 0, "", ""

    monkeypatch.setattr(checks, "call", grows)
    found = problem(doctor(RIGHT, "--fix", steady=True), folder)
    assert found == "doctor --fix a.yaml: the second run still changes something"


def test_the_smallest_input_with_the_same_defect() -> None:
    given = Sample(
        "document", (("doctor", "a.yaml", "x=1"),), {"a.yaml": b"one\n" * 300 + b"needle" + b"two\n" * 300, "b.yaml": b"b"}
    )
    found = smallest(given, lambda made: b"needle" in made.files.get("a.yaml", b""), tries=2000)
    assert found.files == {"a.yaml": b"needle"}
    assert found.calls == (("doctor",),)


def test_samples_on_disk(tmp_path: Path) -> None:
    made = Sample("document", (("doctor", "-"),), {"a": b"\xff\x00", "b": "é".encode()}, stdin=b"x: \xff", steady=True)
    path = tmp_path / "x.json"
    path.write_text(dump(made, "why"))
    assert load(path) == made


def test_a_soak_counts_its_inputs(tmp_path: Path) -> None:
    command = ["-m", "tests.fuzz.soak", "--inputs", "12", "--only", "baseline", "--out", str(tmp_path / "defects")]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("seed 1: 12 inputs in ")
    assert " 0 defects of 0 classes, peak memory " in done.stdout
    assert not (tmp_path / "defects").exists()
