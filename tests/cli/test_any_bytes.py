"""Any bytes in, a finding or a result out: no traceback, and a valid report in every format."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mbpack.cli.main import run
from tests.cli.conftest import BROKEN, RIGHT

few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

#: Bytes of every kind: random ones, text, and configurations with something thrown into them.
WORDS = st.sampled_from(
    "model train dataset : { } [ ] - ? | > & * ! % @ ` ' \" # \n \t , 1e5 0x .inf .nan null ~ true ${ } ??? << _target_ "
    "micro_batch_size context_parallel_size offline_packing_specs mbpack: bridge= gpus= ignore[ ] \\ 漢 \x00 \x1b".split(" ")
)
DAMAGED = st.tuples(st.integers(0, len(BROKEN)), st.integers(0, 40), st.binary(max_size=12)).map(
    lambda cut: BROKEN.encode()[: cut[0]] + cut[2] + BROKEN.encode()[cut[0] + cut[1] :]
)
BYTES = st.one_of(st.binary(max_size=200), st.lists(WORDS, max_size=30).map(lambda words: " ".join(words).encode()), DAMAGED)

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], folder: Path) -> Ask:
    """Writes bytes to a file and calls a command about it; exit code 70 would be a defect."""

    def call(data: bytes, name: str, *argv: str) -> tuple[int, str, str]:
        (folder / name).write_bytes(data)
        capsys.readouterr()
        code = run(argv)
        out, err = capsys.readouterr()
        assert code in (0, 1, 2), err
        assert "Traceback" not in err
        return code, out, err

    return call


@given(BYTES, st.sampled_from(["text", "json", "sarif", "github", "junit"]))
@example(b"\xef\xbb\xbf\xff", "json")
@example(b"a: \xed\xa0\x80", "sarif")
@example(BROKEN.encode("utf-16"), "junit")
@few
def test_a_configuration(ask: Ask, data: bytes, output_format: str) -> None:
    code, out, err = ask(data, "a.yaml", "doctor", "a.yaml", "--format", output_format)
    assert (code in (0, 1), err) == (True, "")
    if output_format in ("json", "sarif"):
        json.loads(out, parse_constant=pytest.fail)
    elif output_format == "junit":
        ElementTree.fromstring(out.encode())
    elif output_format == "text":
        assert "\x1b" not in out


@given(BYTES)
@few
def test_a_configuration_resolved(ask: Ask, data: bytes) -> None:
    assert ask(data, "a.yaml", "doctor", "a.yaml", "--show-resolved")[0] in (0, 1)


@given(BYTES)
@example(b"train.py train.micro_batch_size=2 \\")
@example(b"python scripts/training/run_recipe.py --recipe x a=[ 'b")
@few
def test_a_launch_script(ask: Ask, data: bytes) -> None:
    code, out, err = ask(data, "a.sh", "doctor", "a.sh", "--format", "json")
    assert json.loads(out)["schema_version"] == 1
    assert (err.count("\n") == 1) if code == 2 else (err == "")


@given(BYTES)
@example(b'{"version": 1, "findings": 3}')
@example(b"[]")
@example(b"[" * 100_000)
@few
def test_a_baseline(ask: Ask, data: bytes) -> None:
    (Path("right.yaml")).write_text(RIGHT)
    code, _, err = ask(data, "base.json", "doctor", "right.yaml", "--baseline", "base.json")
    assert code == 0 or err.startswith("mbpack doctor: base.json: ")


@given(BYTES)
@example(b"[tool.mbpack]\nselect = [[]]")
@example(b"[tool.mbpack]\nbridge = 1979-05-27")
@example(b"tool = [{mbpack = 1}]")
@example(b"x = " + b"[" * 5000 + b"mbpack")
@few
def test_a_project_file(ask: Ask, data: bytes) -> None:
    (Path("right.yaml")).write_text(RIGHT)
    code, _, err = ask(data, "pyproject.toml", "doctor", "right.yaml")
    assert code == 0 or "pyproject.toml: " in err or "no rule is called" in err


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=20), max_size=3))
@example(["model.x=\udcff", "a=${b}"])
@example(["++model.x={a:[}", "~model"])
@example(["=", "==", "a="])
@example(["[", "**", "?", "~"])
@few
def test_arguments(ask: Ask, arguments: list[str]) -> None:
    kept = [text for text in arguments if not text.startswith("-") and not os.path.isdir(text.replace("\0", ""))]
    ask(b"", "x", "doctor", "--recipe", "llama3_8b_sft_config", "--format", "json", *kept)


@given(st.text(st.characters(exclude_categories=()), max_size=30))
@few
def test_topics(ask: Ask, topic: str) -> None:
    if not topic.startswith("-"):
        ask(b"", "x", "explain", topic)


NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not {b"/"[0], 0} & set(name) and name not in (b".", b".."))


@given(NAMES, st.sampled_from(["text", "json", "sarif", "github", "junit"]))
@example(b"\xff\x1b[31m.yaml", "text")
@example(b"\xff\x1b[31m.yaml", "junit")
@example(b"\xff%:,.yaml", "sarif")
@example(b"a\nb.yaml", "github")
@few
def test_file_names(ask: Ask, name: bytes, output_format: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, os.fsdecode(name))
        Path(path).write_text(BROKEN)
        code, out, _ = ask(b"", "x", "doctor", path, "--format", output_format)
    out.encode("utf-8")
    assert code in (1, 2)  # 2: its name says script
    if output_format != "github":  # which needs the name as it is
        assert "\x1b" not in out
