"""Defaults of environment variables are likely values: what rests on them is a warning, and decides no verdict."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mbpack.config.context import Given
from mbpack.config.document import Document, parse
from mbpack.config.shell import read_launch
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result

RECIPE = "llama3_8b_sft_config"
RUN = f"torchrun --nproc_per_node=8 run_recipe.py --recipe {RECIPE} --mode sft "


def of_file(text: str, environ: Mapping[str, str] | None = None) -> Result:
    return judge(Request([parse(text)], Given("0.6", RECIPE, gpus=8), environ=environ))


def of_script(text: str, environ: Mapping[str, str] | None = None) -> Result:
    launch = read_launch(text)
    assert launch is not None
    source = Document("train.sh", text, None)
    return judge(Request(flags=Given("0.6"), launch=launch, script=source, environ=environ))


def found(result: Result) -> dict[str, tuple[str, str]]:
    """Severity and message by the code of the rule."""
    return {finding.rule.code: (finding.outcome.severity, finding.message) for finding in result.findings}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("train: {micro_batch_size: '${oc.decode:${oc.env:X,2}}'}", "BAT101"),
        ("model: {tensor_model_parallel_size: '${oc.decode:${oc.env:X,3}}'}", "TOP102"),
        ("a: '${oc.decode:${oc.env:X,2}}'\ntrain: {micro_batch_size: '${a}'}", "BAT101"),
    ],
)
def test_a_default_in_a_file(text: str, code: str) -> None:
    result = of_file(text)
    severity, message = found(result)[code]
    assert (severity, result.verdict, result.first) == ("warning", "unknown", None)
    assert message.endswith(", if X is not set")
    set_to_nothing = of_file(text, {})
    assert found(set_to_nothing)[code][0] == "error"
    assert set_to_nothing.verdict == "rejected"


@pytest.mark.parametrize(
    ("script", "code", "names"),
    [
        (RUN + "train.micro_batch_size=${MBS:-2}", "BAT101", "MBS is"),
        ("M=${MBS:-2}\n" + RUN + "train.micro_batch_size=$M", "BAT101", "MBS is"),
        (": ${M:=2}\n" + RUN + "train.micro_batch_size=$M", "BAT101", "M is"),
        (RUN + "-mb ${MBS:-2}", "BAT101", "MBS is"),
        (RUN + "${MORE:-model.seq_length=4096 train.micro_batch_size=2}", "BAT101", "MORE is"),
        (RUN + "model.tensor_model_parallel_size=${TP:-${T:-3}}", "TOP102", "TP and T are"),
        (RUN.replace("=8", "=${GPUS:-6}") + "model.tensor_model_parallel_size=4", "TOP102", "GPUS is"),
    ],
)
def test_a_default_in_a_script(script: str, code: str, names: str) -> None:
    result = of_script(script)
    severity, message = found(result)[code]
    assert (severity, result.verdict) == ("warning", "unknown")
    assert message.endswith(f", if {names} not set")
    assert found(of_script(script, {}))[code][0] == "error"


def test_what_is_refused_in_any_case_stays_an_error() -> None:
    result = of_script(RUN + "train.micro_batch_size=2 model.nope=${X:-1} model.tensor_model_parallel_size=${TP:-3}")
    said = found(result)
    assert {code: said[code][0] for code in ("BAT101", "CFG103", "TOP102")} == {
        "BAT101": "error",
        "CFG103": "error",
        "TOP102": "warning",
    }
    assert result.verdict == "rejected"
    assert result.first is not None
    assert result.first.rule.code == "CFG103"
    severities = [finding.outcome.severity for finding in result.findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)


def test_an_environment_variable_is_text_whatever_it_says() -> None:
    result = of_file("train: {global_batch_size: '${oc.env:X,32}'}")
    assert found(result)["CFG111"][0] == "error"
    assert result.verdict == "rejected"


def test_each_finding_names_the_variables_it_rests_on() -> None:
    result = of_script(RUN + "train.micro_batch_size=${MBS:-2} model.tensor_model_parallel_size=${TP:-3}")
    said = found(result)
    assert said["BAT101"][1].endswith("if MBS is not set")
    assert said["TOP102"][1].endswith("if TP is not set")


def test_no_fix_of_what_is_likely_is_safe() -> None:
    result = of_file("train: {micro_batch_size: '${oc.decode:${oc.env:X,2}}'}")
    assert not any(finding.fix.safe for finding in result.findings if finding.fix is not None)


def test_a_good_default_is_accepted() -> None:
    assert of_file("train: {train_iters: '${oc.decode:${oc.env:X,20}}'}").verdict == "accepted"
