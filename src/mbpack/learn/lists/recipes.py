"""Recipes as far as their code can be followed without running it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from mbpack.learn.lists.collect import Collected
from mbpack.learn.lists.tree import Tree


class RecipeList(Struct):
    """Recipes by name, and how many values could be read."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    read: int = 0
    unread: int = 0


def read_recipes(tree: Tree, classes: Collected) -> RecipeList:
    """The recipes of a tree."""
    return RecipeList()
