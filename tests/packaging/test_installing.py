"""Installing for real: offline from a wheelhouse, as hooks, as an action, beside Megatron-Bridge. With ``-m conformance``.

Needs what the extra `dev` brings (pre-commit, uv), a package index, and two of Python 3.10 to 3.13 on PATH or in ``~/.pyenv``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BROKEN = (
    "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\n"
    "train:\n  micro_batch_size: 1\n  global_batch_size: 8\n  train_itres: 5\n"
    "model: {context_parallel_size: 2, calculate_per_token_loss: false}\nddp: {average_in_collective: false}\n"
)
MINORS = range(10, 14)
pytestmark = pytest.mark.conformance


def call(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path, **variables}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def interpreters() -> dict[int, str]:
    """Minor version -> an interpreter that runs."""
    found = {}
    for minor in MINORS:
        places = [
            shutil.which(f"python3.{minor}"),
            *sorted(map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))),
        ]
        for place in filter(None, places):
            if subprocess.run([place, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0:
                found[minor] = place
                break
    return found


# ---------------------------------------------------------------------- wheelhouse


def wheelhouse_commands() -> list[str]:
    """The commands of the README, for making and for using a wheelhouse."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- wheelhouse -->\s*```console\n(.*?)```", text, re.DOTALL)
    return [line.removeprefix("$ ") for line in block.splitlines()]


@pytest.mark.parametrize("minor", MINORS)
def test_the_wheelhouse_of_the_readme_installs_offline(tmp_path: Path, minor: int) -> None:
    found = interpreters()
    assert len(found) >= 2, f"two of Python 3.10 to 3.13 are needed, found {found}"
    if minor not in found:
        return  # the others show it
    make, *use = wheelhouse_commands()
    (tmp_path / "mbpack").symlink_to(ROOT)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "python3").symlink_to(found[minor])
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_NO_INDEX": "1", "http_proxy": "http://127.0.0.1:9"}
    for command, variables in [(make, {}), *((command, offline) for command in use)]:
        words = command.replace("python3", found[minor]) if command.startswith("python3") else command
        done = call("bash", "-c", words, cwd=tmp_path, **variables)
        assert done.returncode == 0, (command, done.stderr[-2000:])
    done = call(str(tmp_path / "venv" / "bin" / "mbpack"), "doctor", str(ROOT / "recipes" / "text-sft-8k.yaml"), cwd=tmp_path)
    assert (done.returncode, "no problems found" in done.stdout) == (0, True)


# ---------------------------------------------------------------------- hooks, action


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "packing.yaml").write_text(BROKEN)
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
    (tmp_path / "train.sh").write_text(
        "#!/bin/bash\ntorchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config "
        "train.micro_batch_size=0\n"
    )
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("hook", "said"),
    [("mbpack-doctor", "CFG102"), ("mbpack-doctor-scripts", "micro_batch_size"), ("mbpack-doctor-fix", "fixed")],
)
def test_pre_commit_runs_each_hook(repository: Path, hook: str, said: str) -> None:
    done = call("pre-commit", "try-repo", str(ROOT), hook, "--all-files", "--color", "never", cwd=repository)
    assert done.returncode == 1, done.stdout + done.stderr
    assert said in done.stdout
    assert "pod.yaml" not in done.stdout
    assert ((repository / "packing.yaml").read_text() != BROKEN) is hook.endswith("fix")


def test_the_action_installs_itself_and_checks(repository: Path) -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    (repository / "runner").mkdir()
    variables = {
        "RUNNER_TEMP": str(repository / "runner"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "VERSION": "",
        "FILES": "packing.yaml",
        "ARGUMENTS": "",
        "FORMAT": "github",
        "OUTPUT": "",
    }
    codes = []
    for step in steps:
        done = call("bash", "-eo", "pipefail", "-c", step["run"], cwd=repository, **variables)
        codes.append(done.returncode)
    assert codes == [0, 1], done.stderr
    assert "::error" in done.stdout


# ---------------------------------------------------------------------- beside Megatron-Bridge


def test_no_package_of_a_release_changes() -> None:
    done = call(sys.executable, "tools/beside_releases.py", cwd=ROOT, PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 0, done.stdout
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == ["nothing changes"] * 4
