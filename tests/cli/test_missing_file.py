"""A script whose ``--config-file`` is not here: its own arguments are judged, the file is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

RUN = "torchrun --nproc_per_node=8 train.py --recipe llama3_8b_sft_config --config-file {file} {arguments}\n"


@pytest.mark.parametrize("file", ["conf/none.yaml", "$CONF"])
def test_the_rest_is_judged(mbpack: Call, tmp_path: Path, file: str) -> None:
    script = tmp_path / "run.sh"
    script.write_text(RUN.format(file=file, arguments="train.micro_batch_size=2 train.nope=1"))
    done = mbpack("doctor", str(script), "--bridge", "0.6", "--format", "json")
    assert done.code == 1
    (report,) = json.loads(done.out)["files"]
    found = {finding["code"]: finding for finding in report["findings"]}
    assert found["CFG103"]["severity"] == "error"
    assert "is not here" in found["SUP103"]["message"]
    assert found["SUP103"]["severity"] == "info"
    assert "BAT101" not in found  # the file may switch packing off


def test_a_script_with_its_interpreter_is_read_like_one_without(mbpack: Call, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\n" + RUN.format(file="none.yaml", arguments="train.nope=1"))
    done = mbpack("doctor", str(script), "--bridge", "0.6", "--format", "json")
    codes = [finding["code"] for finding in json.loads(done.out)["files"][0]["findings"]]
    assert "CFG103" in codes
    assert "CFG128" not in codes


def test_what_the_file_may_say_decides_nothing(mbpack: Call, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(RUN.format(file="none.yaml", arguments="train.train_iters=10"))
    done = mbpack("doctor", str(script), "--bridge", "0.6", "--format", "json")
    assert json.loads(done.out)["files"][0]["verdict"] == "unknown"
    (tmp_path / "none.yaml").write_text("train: {global_batch_size: 8}\n")
    done = mbpack("doctor", str(script), "--bridge", "0.6", "--format", "json")
    assert json.loads(done.out)["files"][0]["verdict"] == "accepted"
