"""Reports for machines, held against what their readers accept: SARIF's schema, GitHub's rules, Jenkins' JUnit, our own schema."""

from __future__ import annotations

import json
import lzma
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mbpack.cli.main import run
from mbpack.facts.pages import rule_url
from mbpack.report.places import _root
from mbpack.report.report_schema import report_schema

SARIF = json.loads(lzma.decompress((Path(__file__).parents[1] / "data/formats/sarif-2.1.0.json.xz").read_bytes()))
HEAD = "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\n"
BAD = HEAD + "train: {micro_batch_size: 4}\n"
WARNED = HEAD + "my_team: {owner: alice}\n"
GOOD = HEAD + "train: {train_iters: 5}\n"
Report = Callable[..., tuple[str, int]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "configs").mkdir()
    for name, text in (("bad", BAD), ("warned", WARNED), ("good", GOOD)):
        (tmp_path / "configs" / f"{name}.yaml").write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path / "configs")
    _root.cache_clear()
    return tmp_path


@pytest.fixture
def report(folder: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    def call(output_format: str, *argv: str) -> tuple[str, int]:
        code = run(["doctor", *argv, "--format", output_format])
        return capsys.readouterr().out, code

    return call


SURROUNDINGS = [
    ["bad.yaml"],
    ["bad.yaml", "good.yaml", "warned.yaml"],
    ["bad.yaml", "missing.yaml"],
    ["--bridge", "0.6", "--recipe", "llama3_8b_sft_config", "train.micro_batch_size=4"],
    ["bad.yaml", "--fix"],
    ["bad.yaml", "--diff"],
    ["good.yaml", "train.micro_batch_size=4"],
]


@pytest.mark.parametrize("argv", SURROUNDINGS, ids=" ".join)
def test_sarif_is_what_the_standard_and_github_take(report: Report, argv: list[str]) -> None:
    text, _ = report("sarif", *argv)
    log = json.loads(text)
    jsonschema.Draft4Validator(SARIF).validate(log)
    (one,) = log["runs"]
    for result in one["results"]:
        assert result["locations"], "GitHub refuses a whole upload for one result without a place"
        for location in [*result["locations"], *result.get("relatedLocations", ())]:
            place = location["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            assert place["artifactLocation"]["uri"]
        assert result["message"]["text"]
        rule = one["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert rule["helpUri"] == rule_url(result["ruleId"])


@pytest.mark.parametrize("argv", SURROUNDINGS, ids=" ".join)
def test_json_is_what_its_schema_says(report: Report, argv: list[str]) -> None:
    text, _ = report("json", *argv)
    jsonschema.Draft202012Validator(report_schema()).validate(json.loads(text))


def test_stdin_has_a_place_too(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    run(["doctor", "-", "--format", "sarif"])
    (result, *_) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "stdin"}


def test_paths_lead_from_the_root_of_the_repository(report: Report) -> None:
    (result, *_) = json.loads(report("sarif", "bad.yaml")[0])["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "configs/bad.yaml"
    assert "file=configs/bad.yaml," in report("github", "bad.yaml")[0]


def test_an_input_that_cannot_be_used_is_in_every_report(report: Report) -> None:
    text, code = report("json", "good.yaml", "missing.yaml")
    (problem,) = json.loads(text)["problems"]
    assert problem["path"] == "missing.yaml"
    assert "no such file" in problem["message"]
    assert code == 2
    (invocation,) = json.loads(report("sarif", "good.yaml", "missing.yaml")[0])["runs"][0]["invocations"]
    assert not invocation["executionSuccessful"]
    assert "no such file" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert "::error title=mbpack::missing.yaml" in report("github", "good.yaml", "missing.yaml")[0]


# ---------------------------------------------------------------------- JUnit

#: Elements that Jenkins' reader accepts: required attributes, further ones, children.
JUNIT: Mapping[str, tuple[set[str], set[str], set[str]]] = {
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"skipped", "time", "timestamp", "hostname", "id", "package"},
        {"testcase", "properties", "system-out", "system-err"},
    ),
    "testcase": ({"name"}, {"classname", "time", "status"}, {"failure", "error", "skipped", "system-out", "system-err"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


@pytest.mark.parametrize("argv", SURROUNDINGS, ids=" ".join)
def test_junit_is_what_jenkins_takes(report: Report, argv: list[str]) -> None:
    root = ElementTree.fromstring(report("junit", *argv)[0].encode())
    for element in root.iter():
        required, allowed, children = JUNIT[element.tag]
        assert required <= set(element.attrib) <= required | allowed
        assert {child.tag for child in element} <= children
    assert int(root.attrib["tests"]) == len(root.findall("testcase"))
    assert int(root.attrib["failures"]) == len(root.findall("testcase/failure"))
    assert int(root.attrib["errors"]) == len(root.findall("testcase/error"))


@pytest.mark.parametrize("argv", [["good.yaml"], ["warned.yaml"], ["warned.yaml", "--strict"], ["bad.yaml"], ["nothing.yaml"]])
def test_junit_fails_where_the_command_does(report: Report, argv: list[str]) -> None:
    text, code = report("junit", *argv)
    root = ElementTree.fromstring(text.encode())
    failures, errors = int(root.attrib["failures"]), int(root.attrib["errors"])
    assert code == (2 if errors else 1 if failures else 0)


# ---------------------------------------------------------------------- fixes


def fixes(data: Any) -> list[str]:
    return [made["code"] for file in data["files"] for made in file["fixes"]]


def test_a_report_of_what_was_fixed(report: Report, folder: Path) -> None:
    text, code = report("json", "bad.yaml", "--fix")
    data = json.loads(text)
    assert fixes(data) == ["BAT101"]
    assert data["summary"]["errors"] == 0
    assert "+train: {micro_batch_size: 1}" in data["files"][0]["diff"]
    assert "micro_batch_size: 1" in (folder / "configs/bad.yaml").read_text()
    assert code == 0


def test_a_report_of_what_would_be_fixed(report: Report, folder: Path) -> None:
    text, code = report("json", "bad.yaml", "--diff")
    data = json.loads(text)
    assert fixes(data) == ["BAT101"]
    assert data["summary"]["errors"] > 0
    assert (folder / "configs/bad.yaml").read_text() == BAD
    assert code == 1


@pytest.mark.parametrize("output_format", ["text", "concise", "json", "sarif", "github", "gitlab", "junit"])
def test_a_report_of_fixes_goes_where_it_is_sent(folder: Path, capsys: pytest.CaptureFixture[str], output_format: str) -> None:
    run(["doctor", "bad.yaml", "--diff", "--format", output_format, "--output", "report"])
    assert capsys.readouterr().out == ""
    written = (folder / "configs/report").read_text()
    assert {"text": "+train: {micro_batch_size: 1}", "junit": "<testsuite"}.get(output_format, "BAT101") in written


def test_stdin_cannot_be_mended_onto_a_report(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["doctor", "-", "--fix", "--format", "json"]) == 2
    assert "--output" in capsys.readouterr().err
