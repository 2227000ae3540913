"""The recipes for editors in the README are about what mbpack really prints and takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect

from mbpack.cli.main import COMMANDS
from tests.cli.conftest import BROKEN, WASTEFUL, Call

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(found)


def task() -> dict[str, Any]:
    (found,) = json.loads(block("json"))["tasks"]
    return dict(found)


def test_the_problem_matcher_reads_every_concise_line(mbpack: Call, folder: Path) -> None:
    for name, text in (("broken.yaml", BROKEN), ("waste of time.yaml", WASTEFUL), ("c:d.yaml", BROKEN)):
        (folder / name).write_text(text)
    names = ("broken.yaml", "waste of time.yaml", "c:d.yaml")
    pattern = task()["problemMatcher"]["pattern"]
    lines = mbpack("doctor", *names, "--format", "concise").out.splitlines()
    found = [re.match(pattern["regexp"], line) for line in lines]
    data = mbpack("doctor", *names, "--format", "json").data
    wanted = [
        (file["path"], str(one["line"] or 1), one["code"], one["severity"]) for file in data["files"] for one in file["findings"]
    ]
    assert len(wanted) > 4
    assert [match and tuple(match[pattern[part]] for part in ("file", "line", "code", "severity")) for match in found] == wanted
    assert all(match and match[pattern["message"]] and int(match[pattern["column"]]) >= 1 for match in found)


def test_the_task_begins_and_ends_as_its_matcher_says(folder: Path) -> None:
    (folder / "configs").mkdir()
    (folder / "configs" / "a.yaml").write_text(BROKEN)
    told = task()["problemMatcher"]["background"]
    program, *words = task()["command"].split()
    assert program == "mbpack"
    shell = pexpect.spawn(sys.executable, ["-m", "mbpack", *words], cwd=str(folder), encoding="utf-8", timeout=60)
    shell.expect(told["beginsPattern"].removeprefix("^"))
    shell.expect("BAT101")
    shell.expect(told["endsPattern"].removeprefix("^"))
    shell.close(force=True)


def test_editors_start_a_server_that_exists() -> None:
    server = tomllib.loads(block("toml").partition("[[")[0])["language-server"]["mbpack"]
    assert server["command"] == "mbpack"
    assert server["args"][0] in COMMANDS
    assert '"mbpack", "lsp"' in block("lua")
    done = subprocess.run([sys.executable, "-m", "mbpack", *server["args"], "--help"], capture_output=True, text=True, check=True)
    assert "Python programs" in " ".join(done.stdout.split())
