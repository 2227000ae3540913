"""Environment variables as the process that trains will see them."""

from __future__ import annotations

from typing import Any

from mbpack.config.run import Run
from mbpack.facts.releases import R06


def variable(run: Run, name: str) -> Any:
    """The variable of the environment, else that of ``env_vars`` of the configuration (0.6 and later), else None.

    Raises:
        Unknown: a recipe that was not named may set it.
    """
    if run.settings.environ and name in run.settings.environ:
        return run.settings.environ[name]
    if run.release < R06 or run.value("env_vars") is None:
        return None
    held = run.settings.mapping("env_vars").get(name)
    return held.value if held is not None else None
