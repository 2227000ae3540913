"""The recipe functions of a tree, by the names one asks for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct, field

from mbpack.learn.lists.tree import Defined, Tree

RECIPES, PERFORMANCE = "megatron.bridge.recipes", "megatron.bridge.perf_recipes"
_CALLED = re.compile(r"[^\W_]\w*_config(_\d+nodes)?")  # tools/recipe_calls.py has the same: it runs where mbpack is not installed
_BASES = re.compile(r"_(pretrain|sft|peft)_common(_vlm)?")


class Names(Struct):
    """Recipes of a tree: ``functions`` by name, those that others start from in ``bases``, other names in ``aliases``.

    A performance recipe whose name is taken has the prefix ``perf:``.
    """

    functions: dict[str, Defined] = field(default_factory=dict)
    bases: dict[str, Defined] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def recipe_names(tree: Tree) -> Names:
    """Every public function that can be called without arguments and is named like a recipe."""
    found = Names()
    exported = tree.module(RECIPES)
    for package in (RECIPES, PERFORMANCE):
        for one in _recipes(tree, package):
            meant = exported.resolve(one.name) if exported is not None and package == RECIPES else None
            if isinstance(meant, Defined) and meant.dotted != one.dotted:
                continue  # the package gives the name to another function
            taken = package == PERFORMANCE and one.name in found.functions
            found.functions[f"perf:{one.name}" if taken else one.name] = one
    common = tree.module(f"{RECIPES}.common")
    for node in common.body if common is not None else ():
        if isinstance(node, ast.FunctionDef) and _BASES.fullmatch(node.name) and common is not None:
            found.bases[node.name] = Defined(common, node.name, node)
    found.aliases = dict(sorted(_aliases(tree, {one.dotted: name for name, one in found.functions.items()})))
    return found


def _recipes(tree: Tree, package: str) -> Iterator[Defined]:
    for module in tree.modules(package):
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and _CALLED.fullmatch(node.name):
                if _without_arguments(node):
                    yield Defined(module, node.name, node)


def _without_arguments(node: ast.FunctionDef) -> bool:
    spec = node.args
    return len(spec.defaults) >= len(spec.posonlyargs) + len(spec.args) and all(
        default is not None for default in spec.kw_defaults
    )


def _aliases(tree: Tree, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Names that stand for a recipe whose function is called otherwise."""
    for module in tree.modules(RECIPES):
        for name, bound in module.names.items():
            if _CALLED.fullmatch(name) and isinstance(bound, (str, ast.Name)) and name not in known.values():
                meant = module.resolve(name)
                if isinstance(meant, Defined) and meant.name != name and meant.dotted in known:
                    yield name, known[meant.dotted]
