"""What the tests of the command line share: a folder of their own and a way to call mbpack in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mbpack.cli.main import run

#: A configuration with one finding of every severity: refused, silent, ignored, and a note.
BROKEN = (
    "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
    "model:\n"
    "  seq_length: 8192\n"
    "  tensor_model_parallel_size: 4\n"
    "  sequence_parallel: true\n"
    "  context_parallel_size: 2\n"
    "  calculate_per_token_loss: true\n"
    "train:\n"
    "  micro_batch_size: 2\n"
    "  global_batch_size: 8\n"
    "dataset:\n"
    "  seq_length: 8192\n"
    "  offline_packing_specs:\n"
    "    packed_sequence_size: 8192\n"
    "    pad_seq_to_mult: 2\n"
)
#: The same, right.
RIGHT = BROKEN.replace("micro_batch_size: 2", "micro_batch_size: 1").replace("pad_seq_to_mult: 2", "pad_seq_to_mult: 8")
#: Right, but with a warning.
WASTEFUL = "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\nmodel: {attention_backend: fused}\n"


class Answer(NamedTuple):
    """What a call gave: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def slugs(self) -> list[str]:
        return [finding["slug"] for file in self.data["files"] for finding in file["findings"]]


Call = Callable[..., Answer]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, no project above it, and 80 columns."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("MBPACK_TRACEBACK", raising=False)
    return tmp_path


@pytest.fixture
def mbpack(capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line."""

    def call(*argv: str) -> Answer:
        capsys.readouterr()
        code = run(argv)
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture
def doctor(mbpack: Call) -> Call:
    """Calls `mbpack doctor --format json`."""
    return lambda *argv: mbpack("doctor", "--format", "json", *argv)
