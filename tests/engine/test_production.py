"""Configurations that train in production: no error and no warning, but for what they are known to have wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.config.document import parse
from mbpack.engine.doctor import examine

FOLDER = Path(__file__).parent.parent / "data" / "production"
FILES = sorted(FOLDER.glob("*.yaml"))
#: What is right to say: two key-value groups a tensor parallel rank do not go over four context parallel ranks; a model of
#: 8K does not know the positions of 128K.
RIGHT = {"13_06_qwen3_8b_32k_cp4_run_recipe": ["CPL106"], "23_06_llama8b_128k_unpacked_cp8": ["SEQ106"]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_held_against_it(path: Path) -> None:
    result = examine([parse(path.read_text())])
    held = [finding.rule.code for finding in result.findings if finding.outcome.severity != "info"]
    assert held == RIGHT.get(path.stem, [])
