"""What is justified as equivalent still stands in the source."""

from __future__ import annotations

from pathlib import Path

import pytest

import mbpack

from .justified import reasons

SOURCES = Path(mbpack.__file__).parent


@pytest.mark.parametrize("entry", sorted(reasons()), ids=lambda entry: entry[0])
def test_a_justified_line_exists(entry: tuple[str, str, str]) -> None:
    module, before, after = entry
    text = " ".join((SOURCES / f"{module}.py").read_text(encoding="utf-8").split())
    assert before in text
    assert after != before
    assert len(reasons()[entry]) > 10
