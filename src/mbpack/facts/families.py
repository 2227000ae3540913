"""Model families (under construction)."""

from __future__ import annotations


def family_name(module: str | None, model_class: str | None, hf_id: str | None) -> str | None:
    """The slug of the family a recipe belongs to."""
    return module.rsplit(".", 1)[-1] if module else None
