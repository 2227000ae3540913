"""Launch scripts: the recipe, flags, KEY=VALUE overrides and GPU count of the command that starts a run.

The script is read, never executed: see :mod:`mbpack.config.shell.text` for what stays unknown.
"""

from __future__ import annotations

from mbpack.config.shell.launch import (
    Launch,
    LaunchFlag,
    LaunchOverride,
    Script,
    ScriptError,
    Started,
    Word,
    read_launch,
    read_script,
)

__all__ = ["Launch", "LaunchFlag", "LaunchOverride", "Script", "ScriptError", "Started", "Word", "read_launch", "read_script"]
