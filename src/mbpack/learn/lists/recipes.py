"""The recipes of a tree, by name. What they return depends on code that is not run, so their values stay unknown."""

from __future__ import annotations

import ast

from mbpack.learn.lists.tree import Tree

PACKAGES = ("megatron.bridge.recipes", "megatron.bridge.perf_recipes")


def read_recipes(tree: Tree) -> dict[str, str]:
    """Recipe function -> the module that defines it."""
    return {
        node.name: module.name
        for package in PACKAGES
        for module in tree.modules(package)
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_config") and not node.name.startswith("_")
    }
