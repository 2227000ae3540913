"""What other programs and people build on: help, lists, formats for machines, schemas, completion, the skill."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mbpack.cli.doctor import FORMATS
from mbpack.cli.help_texts import HELP
from mbpack.cli.main import COMMANDS
from mbpack.facts import recipes
from mbpack.facts.releases import RELEASES
from mbpack.report.override_schema import override_schema
from mbpack.report.report_schema import report_schema
from mbpack.skill import FILE as SKILL
from tests.cli.conftest import BROKEN, RIGHT, WASTEFUL, Call

ROOT = Path(__file__).parents[2]
READY = sorted((ROOT / "recipes").glob("*.yaml"))

# ---------------------------------------------------------------------- help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_one_line_examples_and_exit_codes(mbpack: Call, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    summary = next(line for line in mbpack("-h").out.splitlines() if line.split()[:1] == [command])
    assert summary.endswith(HELP[command].short)
    assert len(summary) <= 80
    shown = mbpack(command, "-h")
    assert shown.code == 0
    assert shown.out == mbpack(command, "--help").out == mbpack("help", command).out
    assert "Exit codes: 0" in shown.out
    assert all(example in shown.out for example in HELP[command].examples)


@pytest.mark.parametrize(
    "example", [example for held in HELP.values() for example in held.examples if example.startswith("mbpack")]
)
def test_options_of_examples_exist(mbpack: Call, example: str) -> None:
    words = shlex.split(example.partition(" >")[0])
    assert set(re.findall(r"(?<!\S)--[a-z-]+", " ".join(words))) <= set(re.findall(r"--[a-z-]+", mbpack(words[1], "--help").out))


# ---------------------------------------------------------------------- list


def test_lists_hold_what_the_facts_hold(mbpack: Call) -> None:
    entries = json.loads(mbpack("list", "recipes", "--bridge", "0.5", "--format", "json").out)["entries"]
    assert [entry["name"] for entry in entries] == recipes.names("0.5")
    assert [line.split()[0] for line in mbpack("list", "releases").out.splitlines()] == [release.name for release in RELEASES]
    assert mbpack("list", "keys", "train.micro_batch_size").out.split() == ["train.micro_batch_size", "int|null"]


def test_words_narrow_a_list(mbpack: Call) -> None:
    lines = mbpack("list", "recipes", "QWEN3", "sft").out.splitlines()
    assert 3 < len(lines) < len(recipes.names("0.6"))
    assert all("qwen3" in line.lower() and "sft" in line for line in lines)
    assert mbpack("list", "recipes", "no-such-word").code == 1


@pytest.mark.parametrize("argv", [("cars",), ("rules", "--format", "xml"), ("recipes", "--bridge", "9.9")])
def test_what_cannot_be_listed_is_one_line(mbpack: Call, argv: tuple[str, ...]) -> None:
    answer = mbpack("list", *argv)
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1


# ---------------------------------------------------------------------- formats


@pytest.fixture
def files(folder: Path) -> list[str]:
    for name, text in (("broken.yaml", BROKEN), ("right.yaml", RIGHT), ("waste.yaml", WASTEFUL)):
        (folder / name).write_text(text)
    return ["broken.yaml", "right.yaml", "waste.yaml"]


def test_concise_is_a_line_a_finding(mbpack: Call, files: list[str]) -> None:
    lines = mbpack("doctor", *files, "--format", "concise").out.splitlines()
    data = json.loads(mbpack("doctor", *files, "--format", "json").out)
    assert len(lines) == sum(len(entry["findings"]) for entry in data["files"]) > 0
    assert all(re.match(r"\w+\.yaml:\d+:\d+: [A-Z]{3}\d{3} (error|warning|info): \S", line) for line in lines)


def test_gitlab_has_what_its_report_must_have(mbpack: Call, files: list[str]) -> None:
    issues = json.loads(mbpack("doctor", *files, "--format", "gitlab").out)
    assert issues == json.loads(mbpack("doctor", *files, "--format", "gitlab").out)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) > 0
    for issue in issues:
        assert {"description", "check_name", "fingerprint", "severity", "location"} == issue.keys()
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"]["lines"]["begin"] >= 1


def test_every_format_is_rendered(mbpack: Call, files: list[str]) -> None:
    assert all(mbpack("doctor", *files, "--format", name).code == 1 for name in FORMATS)


# ---------------------------------------------------------------------- schemas


def test_the_report_is_as_its_schema_says(mbpack: Call, files: list[str]) -> None:
    schema = json.loads(mbpack("schema", "report").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == report_schema()
    (Path("bare.yaml")).write_text("model: {context_parallel_size: 2}\n")
    jsonschema.validate(json.loads(mbpack("doctor", *files, "bare.yaml", "--bridge", "0.6", "--format", "json").out), schema)


def test_override_schemas_are_schemas(mbpack: Call) -> None:
    seen: set[str] = set()
    for release in RELEASES:
        schema = json.loads(mbpack("schema", "overrides", "--bridge", release.name).out)
        assert schema["properties"]["train"]
        for part in parts(schema):
            text = json.dumps(part)
            if text not in seen:  # most fields are the same in each release, and the check is slow
                seen.add(text)
                jsonschema.Draft202012Validator.check_schema(part)
    assert len(seen) > 300


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all within it, each without what is within; one is valid where all of these are."""
    own = dict(schema)
    for name in schema.keys() & {"properties", "$defs", "anyOf", "allOf", "if", "then"}:
        held = schema[name]
        inner = held if isinstance(held, list) else [held] if name in ("if", "then") else list(held.values())
        own[name] = [{}] if isinstance(held, list) else {}
        for one in inner:
            yield from parts(one)
    yield own


@pytest.mark.parametrize("path", READY, ids=lambda path: path.name)
def test_ready_overrides_are_as_their_release_has_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    release = re.search(r"bridge=(\S+)", text)
    assert release is not None
    validator = jsonschema.Draft202012Validator(override_schema(release[1]))
    assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("train: {micro_batch_sise: 1}", "micro_batch_sise"),
        ("train: {micro_batch_size: one}", "one"),
        ("dataset: {packed_sequence_specs: {packed_sequence_size: 1}}", "packed_sequence_specs"),
    ],
)
def test_the_schema_finds_what_an_editor_should_show(text: str, key: str) -> None:
    errors = list(jsonschema.Draft202012Validator(override_schema("0.6")).iter_errors(yaml.safe_load(text)))
    assert any(key in str(error.context or error.message) for error in errors)


# ---------------------------------------------------------------------- completion, skill


def completed(script: str, words: str) -> list[str]:
    asked = f'{script}\nCOMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}}-1))\n_mbpack\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_options_and_values(mbpack: Call) -> None:
    script = mbpack("completion", "bash").out
    assert completed(script, "mbpack do") == ["doctor"]
    assert "--strict" in completed(script, "mbpack doctor --st")
    assert completed(script, "mbpack doctor --recipe qwen3_8b_sft_4") == ["qwen3_8b_sft_4gpu_h100_bf16_config"]
    assert completed(script, "mbpack explain ALN101") == ["ALN101"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_command_and_option(mbpack: Call, shell: str) -> None:
    script = mbpack("completion", shell).out
    assert all(re.search(rf"\b{name}\b", script) for name in COMMANDS)
    assert "unsafe-fixes" in script
    assert mbpack("completion", "csh").code == 2


def test_the_skill_names_commands_and_options_that_exist(mbpack: Call) -> None:
    text = SKILL.read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---")[1])
    assert front.keys() == {"name", "description"}
    assert mbpack("skill").out.strip() == text.strip()
    calls = [shlex.split(call) for call in re.findall(r"`mbpack ([^`]+)`", text)]
    assert {call[0] for call in calls} >= {"list", "init", "doctor", "explain", "lengths", "plan", "fit", "migrate", "schema"}
    for command, *words in calls:
        known = set(re.findall(r"--[a-z-]+", mbpack(command, "--help").out))
        assert {word for word in words if word.startswith("--")} <= known, command


def test_the_skill_is_installed_where_skills_are(mbpack: Call, folder: Path) -> None:
    assert mbpack("skill", "--install", "skills").code == 0
    installed = folder / "skills" / "mbpack" / "SKILL.md"
    assert installed.read_bytes() == SKILL.read_bytes()
    installed.write_text("mine")
    assert mbpack("skill", "--install", "skills").code == 2
    assert installed.read_text() == "mine"
