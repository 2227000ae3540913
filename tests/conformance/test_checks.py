"""The tables of start-up checks on every recorded row: nothing accepted is refused, and most refusals are theirs."""

from __future__ import annotations

import pytest

from tests.checks.test_tables import CAUGHT, KINDS, RELEASES, disagreements


@pytest.mark.conformance
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_row(kind: str, release: str) -> None:
    wrong, share = disagreements(kind, release, 1)
    assert wrong == []
    assert share >= CAUGHT[kind]
