"""The skill for coding agents: when to use mbpack and how, as a file that agents read."""

from __future__ import annotations

from pathlib import Path

NAME = "mbpack"
FILE = Path(__file__).with_name("SKILL.md")


def text() -> str:
    """The skill."""
    return FILE.read_text(encoding="utf-8")
