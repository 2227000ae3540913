"""Files that other services read: the action, the release workflow, the hooks. Held against the schemas of those services."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import mbpack
from mbpack.cli.doctor import FORMATS
from mbpack.cli.main import run

ROOT = Path(__file__).parents[2]
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((ROOT / name).read_text(encoding="utf-8"), yaml.BaseLoader)
    return found


@pytest.mark.parametrize(
    ("schema", "path"),
    [("vendor.github-actions", "action.yml"), ("vendor.github-workflows", ".github/workflows/release.yml")],
)
def test_the_service_takes_the_file(schema: str, path: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_action_installs_its_own_ref() -> None:
    install, check = load("action.yml")["runs"]["steps"]
    assert 'what="$GITHUB_ACTION_PATH"' in install["run"]
    assert load("action.yml")["inputs"]["version"]["default"] == ""
    assert set(FORMATS) == set(re.findall(r"\w+", load("action.yml")["inputs"]["format"]["description"].partition("(")[2]))
    for step in (install, check):
        assert "${{" not in step["run"], "an input in a script is run as one"


def test_the_action_runs_the_doctor(tmp_path: Path) -> None:
    """Its second step, as the service runs it; the first one with ``-m conformance`` in test_installing.py."""
    tools = tmp_path / "mbpack" / "bin"
    tools.mkdir(parents=True)
    (tools / "mbpack").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mbpack "$@"\n')
    (tools / "mbpack").chmod(0o755)
    inputs = {
        "FILES": "tests/data/examples/sft.yaml recipes",
        "ARGUMENTS": "--bridge 0.6 --strict",
        "FORMAT": "github",
        "OUTPUT": "",
    }
    script = load("action.yml")["runs"]["steps"][1]["run"]
    environment = {**os.environ, **inputs, "RUNNER_TEMP": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"^::error file=tests/data/examples/sft.yaml,.*line=\d+", done.stdout, re.M)


def test_the_release_builds_attests_and_publishes_without_a_secret() -> None:
    workflow = load(".github/workflows/release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert build["permissions"]["attestations"] == publish["permissions"]["id-token"] == "write"
    assert publish["needs"] == "build"
    used = [step["uses"].partition("@")[0] for job in (build, publish) for step in job["steps"] if "uses" in step]
    assert "actions/attest-build-provenance" in used
    assert "pypa/gh-action-pypi-publish" in used
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    (check,) = (step for step in build["steps"] if step.get("name") == "The tag is the version")
    for tag, good in ((f"v{mbpack.__version__}", True), ("v99.0.0", False)):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(["bash", "-c", check["run"]], cwd=ROOT, env={**os.environ, "TAG": tag, "PATH": path}, check=False)
        assert (done.returncode == 0) is good


def test_hooks_call_what_exists(capsys: pytest.CaptureFixture[str]) -> None:
    hooks: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert run(["doctor", "--help"]) == 0
    known = capsys.readouterr().out
    for hook in hooks:
        program, command, *options = hook["entry"].split()
        assert (program, command) == ("mbpack", "doctor")
        assert all(option in known for option in options)
        assert hook["require_serial"] is True


def test_no_bound_that_changes_other_packages() -> None:
    (typer,) = (one for one in PROJECT["dependencies"] if one.startswith("typer"))
    assert "<" not in typer
    assert "=" not in typer.replace(">=", "")
