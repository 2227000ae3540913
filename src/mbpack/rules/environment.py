"""Environment variables as the process that trains will see them."""

from __future__ import annotations

from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.releases import R06


def variable(run: Run, name: str) -> Any:
    """The variable of the environment, else that of ``env_vars`` of the configuration (0.6 and later), else None.

    Raises:
        Unknown: only the machine that trains can tell, or a recipe that was not named may set it.
    """
    environ = run.settings.environ
    if environ is not None and name in environ:
        return environ[name]
    if run.release >= R06 and run.value("env_vars") is not None:
        held = run.settings.mapping("env_vars").get(name)
        if held is not None:
            return held.value
    if environ is None:
        raise Unknown(name, ("environment",))
    return None
