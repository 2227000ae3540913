"""The facts of each release are as they are on record: see ``tests/facts/by_release.py``."""

from __future__ import annotations

import pytest

from tests.facts.by_release import FOLDER, NAMES, page


@pytest.mark.parametrize("name", NAMES)
def test_facts_of_a_release(name: str) -> None:
    assert page(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
