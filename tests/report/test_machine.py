"""Reports for machines: JSON by its contract, SARIF, GitHub annotations and JUnit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import mbpack
from mbpack.cli.main import run
from mbpack.engine.derived import names
from mbpack.report.columns import printable
from mbpack.report.json import plain
from mbpack.report.json import render as render_json
from mbpack.rules.catalogue import BY_NAME
from tests.cli.conftest import BROKEN, RIGHT

SEVERITIES = {"error", "warning", "info"}
CONSEQUENCES = {"rejected", "crash", "silent", "ignored", "waste", "note"}
TIMES = {"load", "validate", "data", "first-step", "evaluation", "resume", "always"}
MODES = {"offline", "in_batch", "energon", "global_batch", "none", "unknown"}
VERDICTS = {"rejected", "accepted", "unknown"}
NUMBER, TEXT, MAYBE_NUMBER, MAYBE_TEXT = int, str, (int, type(None)), (str, type(None))

#: Files that between them show every kind of entry.
TEXTS = {
    "broken file.yaml": BROKEN,
    "right.yaml": RIGHT,
    "empty.yaml": "",
    "broken yaml.yaml": "model: [\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\n",
    "odd.yaml": (
        "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script nonsense\n"
        "model: {context_parallel_size: .inf, seq_length: .nan, x: '漢字, 100%: \\e \\r', tensor_model_parallel_size: 2.5}\n"
        "train: {global_batch_size: 0x" + "f" * 2000 + ", micro_batch_size: -.inf}\n"
        "dataset: {packed_sequence_specs: {}, offline_packing_specs: {pad_seq_to_mult: [1, {a: .nan}]}}\n"
    ),
    "energon.yaml": (
        "# mbpack: bridge=0.7 gpus=16 launcher=run_recipe recipe=qwen3_vl_8b_sft_config\n"
        "dataset: {enable_in_batch_packing: true}\ntrain: {micro_batch_size: 1}\n"
    ),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], output_format: str, *argv: str) -> str:
    capsys.readouterr()
    run(["doctor", *(argv or TEXTS), "--format", output_format])
    return capsys.readouterr().out


def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(items) == len(dict(items)), "a key twice"
    return dict(items)


def strict(text: str) -> Any:
    """JSON without NaN, Infinity or repeated keys."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=pairs)


def check(value: Any, shape: Any, at: str = "$") -> None:
    """Compare data with a shape: a dict of exactly these keys in this order, a list of one shape, a set, or types."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), at
        assert list(value) == list(shape), at
        for name, inner in shape.items():
            check(value[name], inner, f"{at}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), at
        for index, item in enumerate(value):
            check(item, shape[0], f"{at}[{index}]")
    elif isinstance(shape, set):
        assert value in shape, f"{at}: {value!r}"
    elif callable(shape) and not isinstance(shape, type):
        shape(value, at)
    else:
        assert isinstance(value, shape), f"{at}: {value!r}"
        assert not isinstance(value, bool) or shape is bool, at


def maybe(shape: Any) -> Any:
    return lambda value, at: None if value is None else check(value, shape, at)


def anything(value: Any, at: str) -> None:
    pass


def by_name(kind: type) -> Any:
    def each(value: Any, at: str) -> None:
        assert all(isinstance(name, str) and isinstance(item, kind) for name, item in value.items()), at

    return each


EDIT = {"op": {"set", "delete", "rename"}, "key": TEXT, "value": anything, "to": MAYBE_TEXT}
HOLDS_FOR = {
    "input": {"recipe", "launcher", "gpus", "gpu", "bridge"},
    "number": NUMBER,
    "of": NUMBER,
    "such_as": [TEXT],
    "not_with": [TEXT],
    "also": TEXT,
}
FINDING = {
    "code": TEXT,
    "slug": TEXT,
    "severity": SEVERITIES,
    "consequence": CONSEQUENCES,
    "when": TIMES,
    "message": TEXT,
    "why": TEXT,
    "key": MAYBE_TEXT,
    "line": MAYBE_NUMBER,
    "column": MAYBE_NUMBER,
    "end_column": MAYBE_NUMBER,
    "related": [{"key": TEXT, "line": MAYBE_NUMBER, "column": MAYBE_NUMBER, "value": anything}],
    "fix": maybe({"safety": {"safe", "unsafe"}, "title": TEXT, "edits": [EDIT]}),
    "fires_first": bool,
    "holds_for": maybe(HOLDS_FOR),
}
CONTEXT = {
    "bridge": TEXT,
    "recipe": MAYBE_TEXT,
    "gpus": MAYBE_NUMBER,
    "gpu": MAYBE_TEXT,
    "launcher": {"run_recipe", "script", None},
    "sources": by_name(str),
}
CONTRACT = {
    "schema_version": NUMBER,
    "mbpack": TEXT,
    "files": [
        {
            "path": MAYBE_TEXT,
            "context": CONTEXT,
            "mode": MODES,
            "verdict": VERDICTS,
            "candidates": maybe(
                {
                    "recipes": NUMBER,
                    "rejected": NUMBER,
                    "accepted": NUMBER,
                    "unknown": NUMBER,
                    "few": [{"code": TEXT, "slug": TEXT, "message": TEXT, "recipes": NUMBER}],
                }
            ),
            "findings": [FINDING],
            "by_release": [{"code": TEXT, "slug": TEXT, "consequence": TEXT, "message": TEXT, "holds_for": HOLDS_FOR}],
            "not_checked": [{"code": TEXT, "needs": [TEXT]}],
            "derived": by_name(int),
            "upstream_tests": [TEXT],
        }
    ],
    "problems": [{"path": MAYBE_TEXT, "message": TEXT}],
    "summary": {"files": NUMBER, "errors": NUMBER, "warnings": NUMBER},
}


def findings(data: Any) -> Iterator[dict[str, Any]]:
    return (finding for file in data["files"] for finding in file["findings"])


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    data = strict(report(capsys, "json"))
    check(data, CONTRACT)
    assert (data["schema_version"], data["mbpack"]) == (1, mbpack.__version__)
    assert [file["path"] for file in data["files"]] == list(TEXTS)
    assert {file["verdict"] for file in data["files"]} == VERDICTS
    for severity in ("error", "warning"):
        assert data["summary"][severity + "s"] == sum(found["severity"] == severity for found in findings(data))
    assert {name for file in data["files"] for name in file["derived"]} <= set(names())
    for found in findings(data):
        assert BY_NAME[found["code"]] is BY_NAME[found["slug"]]
        assert re.fullmatch("[A-Z]{3}[0-9]{3}", found["code"])
        if found["line"] is not None:
            assert min(found["line"], found["column"]) >= 1
            assert found["end_column"] >= found["column"]


def test_exactly_one_finding_of_a_refused_file_fires_first(capsys: pytest.CaptureFixture[str]) -> None:
    for file in strict(report(capsys, "json"))["files"]:
        refused = [found for found in file["findings"] if found["consequence"] == "rejected"]
        first = [found for found in file["findings"] if found["fires_first"]]
        assert (file["verdict"] == "rejected") == bool(refused) == bool(first)
        assert len(first) <= 1
        assert all(found in refused for found in first)


def test_findings_are_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    order = ["rejected", "silent", "crash", "ignored", "waste", "note"]
    for file in strict(report(capsys, "json", "broken file.yaml", "odd.yaml", "energon.yaml"))["files"]:
        ranks = [("error", "warning", "info").index(f["severity"]) * 10 + order.index(f["consequence"]) for f in file["findings"]]
        assert ranks == sorted(ranks)
        refused = [found["fires_first"] for found in file["findings"] if found["consequence"] == "rejected"]
        assert refused == sorted(refused, reverse=True)


def test_json_is_the_same_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(capsys, "json") == report(capsys, "json")


def test_values_that_json_cannot_hold() -> None:
    values = [float("nan"), float("inf"), -float("inf"), 1 << 20_000, {1}, b"x", (1, [float("nan")]), None, True, 1.5, "x"]
    data = strict(render_json([{"findings": [], "values": [plain(value) for value in values]}]))["files"][0]["values"]
    assert data[:3] == ["nan", "inf", "-inf"]
    assert data[3].startswith("0x1000")
    assert data[6:] == [[1, ["nan"]], None, True, 1.5, "x"]


def test_half_characters_do_not_reach_readers(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "bytes.yaml").write_bytes(b"# mbpack: recipe=a\xffb bridge=0.6 ignore[\xfe]\nmodel: {x: \xff}\n")
    for output_format in ("json", "sarif", "github", "junit", "text"):
        report(capsys, output_format, "bytes.yaml").encode("utf-8")


# ---------------------------------------------------------------------- SARIF


def test_sarif(capsys: pytest.CaptureFixture[str]) -> None:
    log = strict(report(capsys, "sarif"))
    data = strict(report(capsys, "json"))
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    (one,) = log["runs"]
    driver = one["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("mbpack", mbpack.__version__)
    assert one["columnKind"] == "unicodeCodePoints"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert rule["name"] == BY_NAME[rule["id"]].slug
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"] == f"mbpack explain {rule['id']}"
    assert len(one["results"]) == len(list(findings(data)))
    for result, found in zip(one["results"], findings(data), strict=True):
        assert ids[result["ruleIndex"]] == result["ruleId"] == found["code"]
        assert result["level"] == {"error": "error", "warning": "warning", "info": "note"}[found["severity"]]
        assert result["message"]["text"].startswith(found["message"])
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert region["startLine"] == (found["line"] or 1)
        assert ("startColumn" in region) == (found["line"] is not None)
        for place in [location, *result.get("relatedLocations", [])]:
            physical = place["physicalLocation"]
            assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", physical["artifactLocation"]["uri"])
            region = {"startColumn": 1, **physical["region"]}
            assert min(region["startLine"], region["startColumn"]) >= 1
            assert region.get("endColumn", region["startColumn"]) >= region["startColumn"]


def test_sarif_uris(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "100%.yaml").write_text(BROKEN)
    outside = folder.parent / f"{folder.name} outside.yaml"
    outside.write_text(BROKEN)
    argv = ["broken file.yaml", "100%.yaml", str(folder / "broken file.yaml"), str(outside)]
    results = json.loads(report(capsys, "sarif", *argv, "--select", "BAT101"))["runs"][0]["results"]
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results]
    assert uris[:3] == ["broken%20file.yaml", "100%25.yaml", "broken%20file.yaml"]
    assert uris[3].startswith("file:///")
    assert uris[3].endswith("%20outside.yaml")


def test_places_in_layers_name_their_own_file(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "top.yaml").write_text("train: {micro_batch_size: 2}\n")
    argv = ["--merge", "broken file.yaml", "top.yaml", "--select", "BAT101,ALN101"]
    results = json.loads(report(capsys, "sarif", *argv))["runs"][0]["results"]
    uris = {r["ruleId"]: r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results}
    assert uris == {"BAT101": "top.yaml", "ALN101": "broken%20file.yaml"}
    lines = report(capsys, "github", *argv).splitlines()
    assert lines[0].startswith("::error file=top.yaml,")
    assert ",line=1,col=27::" in lines[0]


# ---------------------------------------------------------------------- GitHub


def unescaped(text: str, in_property: bool) -> str:
    for code, sign in (("%2C", ","), ("%3A", ":")) if in_property else ():
        text = text.replace(code, sign)
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def test_github_annotations(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "a,b:c%.yaml").write_text(TEXTS["odd.yaml"])
    argv = [*TEXTS, "a,b:c%.yaml"]
    data = strict(report(capsys, "json", *argv))
    lines = report(capsys, "github", *argv).splitlines()
    expected = [(file["path"], found) for file in data["files"] for found in file["findings"]]
    assert len(lines) == len(expected)
    for line, (path, found) in zip(lines, expected, strict=True):
        match = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        assert match, line
        properties = {name: unescaped(value, True) for name, _, value in (item.partition("=") for item in match[2].split(","))}
        assert properties["file"] == path
        assert properties["title"] == f"{found['code']} {found['slug']}"
        assert properties.get("line") == (None if found["line"] is None else str(found["line"]))
        assert unescaped(match[3], False).startswith(printable(found["message"]))
        assert "\x1b" not in line


# ---------------------------------------------------------------------- JUnit


def test_junit(capsys: pytest.CaptureFixture[str]) -> None:
    data = strict(report(capsys, "json"))
    suite = ElementTree.fromstring(report(capsys, "junit").encode())
    assert suite.tag == "testsuite"
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == list(TEXTS)
    bad = [any(found["severity"] == "error" for found in file["findings"]) for file in data["files"]]
    assert [case.find("failure") is not None for case in cases] == bad
    assert (suite.get("tests"), suite.get("failures")) == (str(len(TEXTS)), str(sum(bad)))
    failure = cases[0].find("failure")
    assert failure is not None
    assert "line 9: BAT101 offline packing needs micro_batch_size 1" in (failure.text or "")


@pytest.mark.parametrize("output_format", ["json", "sarif", "github", "junit"])
def test_a_recipe_alone_has_no_path(capsys: pytest.CaptureFixture[str], output_format: str) -> None:
    argv = ["--recipe", "llama3_8b_sft_config", "--bridge", "0.6", "--gpus", "8", "train.micro_batch_size=2"]
    text = report(capsys, output_format, *argv)
    if output_format == "json":
        (file,) = strict(text)["files"]
        assert (file["path"], file["verdict"]) == (None, "rejected")
    elif output_format == "sarif":
        for result in strict(text)["runs"][0]["results"]:  # GitHub refuses a result without a place
            (location,) = result["locations"]
            assert location["physicalLocation"]["artifactLocation"] == {"uri": "command-line"}
    elif output_format == "github":
        assert text.startswith("::error title=BAT101 batch/offline-mbs-one::")
    else:
        assert ElementTree.fromstring(text.encode()).find("testcase").get("name") == "llama3_8b_sft_config"  # type: ignore[union-attr]
