"""Shared helpers of the tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.engine.doctor import examine
from mbpack.engine.result import Result

DATA = Path(__file__).parent / "data"

# A test run repeats itself; `HYPOTHESIS_PROFILE=explore` looks at new examples instead, as the soak runs do.
hypothesis.settings.register_profile("repeat", derandomize=True, database=None)
hypothesis.settings.register_profile("explore")
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))


def doctor(text: str, **context: Any) -> Result:
    """Examine one text; context values as the command's flags give them."""
    flags = Given(**{name: str(value) if name == "bridge" else value for name, value in context.items()})
    return examine([parse(text)], flags)


def slugs(result: Result, severity: str | None = None) -> list[str]:
    """Slugs of the findings, of one severity or all."""
    return [f.rule.slug for f in result.findings if severity is None or f.outcome.severity == severity]


def load_cases(path: Path) -> list[dict[str, Any]]:
    """The cases of a YAML case file."""
    loaded = yaml.safe_load(path.read_text())
    return loaded["cases"] if isinstance(loaded, dict) else loaded


@pytest.fixture
def data_dir() -> Path:
    """Recorded data of the tests."""
    return DATA


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite runs on all processors; what is named on the command line runs in one process, as a debugger needs it."""
    whole = config.args_source is config.ArgsSource.TESTPATHS and not hasattr(config, "workerinput")  # nor what one starts
    if whole and getattr(config.option, "numprocesses", 0) is None and not config.option.usepdb:
        own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        config.option.numprocesses = min(own or 1, 4)  # xdist's "auto" counts the machine's, which a container has a share of
        config.option.dist = "worksteal"  # neighbours in one process, where what they share is kept


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked ``conformance`` need the real packages, a network or minutes: they run only with ``-m conformance``."""
    if "conformance" in config.option.markexpr:
        return
    left = [item for item in items if item.get_closest_marker("conformance")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("conformance")]
