"""``${...}`` in values."""

from __future__ import annotations


def grammar_error(text: str) -> str | None:
    """Why OmegaConf refuses this text (which holds ``${``) when it loads it; None if it accepts it."""
    return None
