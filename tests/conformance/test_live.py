"""`mbpack.check` on live configurations of the real packages says what the doctor says of the file they save."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

import mbpack
from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge

from .real import environments

pytestmark = pytest.mark.conformance
ROWS = int(os.environ.get("MBPACK_CONFORMANCE_LIVE", "75"))
HERE = Path(__file__).parent
#: What only a file can have: a set that the loader refuses, keys that are no text.
OF_FILES = {"CFG123", "CFG124"}


@pytest.mark.parametrize("release", environments.available() or list(environments.RELEASES)[-1:])
def test_a_live_configuration_is_judged_like_its_file(release: str, tmp_path: Path) -> None:
    python, packages, transformer_engine = environments.find(release)
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    folders = [*packages, HERE / "real", Path(mbpack.__file__).parents[1], tmp_path]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WORLD_SIZE"))}
    environment.update(PYTHONPATH=os.pathsep.join(map(str, folders)), HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    command = [str(python), str(HERE / "live.py"), "--release", release, "--transformer-engine", transformer_engine]
    done = subprocess.run([*command, "--rows", str(ROWS)], env=environment, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == ROWS
    for row in rows:
        result = judge(Request([parse(row["text"])], Given(release, None, 16, "script")))
        of_file = [finding for finding in result.findings if finding.rule.code not in OF_FILES]
        wanted = [[f.rule.code, f.setting.key or None, f.outcome.severity, f.message] for f in of_file]
        assert sorted(map(str, row["findings"])) == sorted(map(str, wanted)), row["recipe"]
        if len(of_file) == len(result.findings):
            assert row["verdict"] == result.verdict, row["recipe"]
