"""Every finding about recorded configurations is as it is on record: see ``tests/rules/recorded.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.recorded import FILES, findings, read_file, rows

ROWS = [pytest.param(path, name, id=f"{path.stem}-{name}") for path in FILES for name in read_file(path)]


@pytest.mark.parametrize(("path", "name"), ROWS)
def test_findings_of_a_recorded_configuration(path: Path, name: str) -> None:
    assert findings(rows(path.stem)[name]) == read_file(path)[name]
