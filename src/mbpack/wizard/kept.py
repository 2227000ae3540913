"""Answers of an interactive session, kept as they are given and offered again the next time the same file is written.

They lie in the user's state folder (``XDG_STATE_HOME``, ``LOCALAPPDATA`` or ``~/.local/state``), one file for each file that
is written; never beside the configuration. A folder that cannot be written costs nothing but the offer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mbpack.wizard import answers as words
from mbpack.wizard.output import OutputError, write


def place(output: str) -> Path:
    """The file that keeps the answers for an output file."""
    root = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/.local/state")
    name = hashlib.sha256(os.path.abspath(output).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return Path(root) / "mbpack" / "init" / f"{name}.yaml"


def load(output: str) -> dict[str, Any]:
    """The answers given before for an output file; none where there are none that can be read."""
    where = place(output)
    try:
        return words.read(where.read_text(encoding="utf-8"), str(where))
    except (OSError, UnicodeDecodeError, words.AnswerError):
        return {}


def save(output: str, answers: Mapping[str, Any]) -> bool:
    """Keep the answers; whether they are kept."""
    where = place(output)
    try:
        where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(str(where), words.write(answers))
        os.chmod(where, 0o600)
    except (OSError, OutputError):
        return False
    return True
