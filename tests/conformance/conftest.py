"""Tests marked `conformance` need the real packages: they run only when the marker is asked for (`pytest -m conformance`)."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "conformance" in config.option.markexpr:
        return
    chosen = [item for item in items if item.get_closest_marker("conformance") is None or HERE not in item.path.parents]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
