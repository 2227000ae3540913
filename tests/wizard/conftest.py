"""Tests marked `conformance` take minutes or need the real packages: they run only when the marker is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "conformance" in config.option.markexpr:
        return
    left = [item for item in items if item.get_closest_marker("conformance") is not None and HERE in item.path.parents]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
