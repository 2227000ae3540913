"""Launches of ``scripts/performance``: options that set keys are read, others named, and the recipe is nobody's here."""

from __future__ import annotations

import pytest

from mbpack.config.document import Document
from mbpack.config.shell import read_launch
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result

RUN = "python scripts/performance/run_script.py --model_family_name llama --model_recipe_name llama3_70b --gpu h100 "


def of_script(text: str) -> Result:
    launch = read_launch(text)
    assert launch is not None
    return judge(Request(launch=launch, script=Document("train.sh", text, None)))


def test_the_options_are_read() -> None:
    result = of_script(RUN + "-ng 64 -gn 8 -tp 4 -pp 8 -cp 1 -vp None -ep 1 -et 1 -gb 256 -mb 1 -sl 8192 -ms 50")
    assert result.run is not None
    held = {
        key: result.run.value(key)
        for key in (
            "model.tensor_model_parallel_size",
            "model.virtual_pipeline_model_parallel_size",
            "model.seq_length",
            "train.train_iters",
        )
    }
    assert list(held.values()) == [4, None, 8192, 50]
    assert result.context is not None
    assert (result.context.gpus, result.context.nodes, result.context.gpu) == (64, 8, "h100-80gb")
    assert result.derived["num_microbatches"].value == 128


def test_options_win_over_arguments() -> None:
    result = of_script(RUN + "-ng 8 -tp 4 model.tensor_model_parallel_size=2")
    assert result.run is not None
    assert result.run.tp == 4


@pytest.mark.parametrize("program", ["scripts/performance/setup_experiment.py", "run_script.py", "performance/bootstrap.py"])
def test_what_is_not_read_is_named(program: str) -> None:
    result = of_script(f"python {program} -m llama -mr llama3_8b --compute_dtype bf16 --account me")
    (told,) = [finding for finding in result.findings if "performance launcher" in finding.message]
    assert "llama3_8b" in told.message
    assert told.message.endswith("not read: --compute_dtype")
    assert told.outcome.severity == "info"
    assert result.verdict == "unknown"


def test_mistakes_of_the_options_are_found() -> None:
    result = of_script(RUN + "--num_gpus 64 --tensor_model_parallel_size=6 --pipeline_model_parallel_size 1 -cp 1")
    assert "TOP102" in [finding.rule.code for finding in result.findings if finding.outcome.severity == "error"]


def test_no_library_recipe_stands_in_for_its_recipe() -> None:
    result = of_script(RUN + "mixed_precision.grad_reduce_in_fp32=true")
    assert result.candidates is None
    assert not result.errors + result.warnings
