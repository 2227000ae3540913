#!/usr/bin/env python3
"""The review list of a new release, from its sources alone: what a maintainer has to look at, in one command.

usage: python tools/review_release.py OLD NEW

OLD and NEW are folders of packages or checkouts (`pip download --no-deps` and unzip is enough). Prints, each under its heading:
classes new, gone and moved; fields new, gone, renamed, re-typed and with another default; per function that checks, the refusals
that are new or gone, as conditions; recipes new and gone, and what recipes of the same name return differently; upstream test
files of `facts/upstream_tests.py` that are not there. Nothing is imported or run; half a minute of work for two releases.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from mbpack.facts import upstream_tests
from mbpack.learn.lists.collect import UNREAD
from mbpack.learn.lists.collect import configurations as found_in
from mbpack.learn.lists.fields import Class, Reader
from mbpack.learn.lists.tree import Module, Tree, open_tree
from mbpack.learn.recipes.names import PERFORMANCE
from mbpack.learn.recipes.names import recipe_names as names_of
from mbpack.learn.recipes.read import Read, read_recipe

#: Recipes that a change names, and characters of a change, at most.
_NAMED, _WIDEST = 3, 160

#: Where start-up checks live.
CHECKED = (
    "megatron.bridge.training",
    "megatron.bridge.data",
    "megatron.bridge.models.transformer_config",
    "megatron.bridge.utils",
    "megatron.core.transformer.transformer_config",
    "megatron.core.model_parallel_config",
    "megatron.core.optimizer.optimizer_config",
    "megatron.core.distributed.distributed_data_parallel_config",
)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    arguments = parser.parse_args()
    start = time.perf_counter()
    old, new = open_tree(arguments.old), open_tree(arguments.new)
    for heading, lines in (
        ("classes and fields", class_changes(old, new)),
        ("refusals by function", refusal_changes(old, new)),
        ("recipes", recipe_changes(old, new)),
        ("upstream tests", missing_tests(Path(arguments.new))),
    ):
        print(f"\n## {heading}")
        found = list(lines)
        print("\n".join(found) if found else "nothing")
    print(f"\n{time.perf_counter() - start:.1f} s")


def class_changes(old: Tree, new: Tree) -> Iterator[str]:
    """Classes and, per class, fields; what a base shows already is not repeated for those that derive from it."""
    before, after = configurations(old), configurations(new)
    yield from (f"new   {path}" for path in after if path.rpartition(".")[2] not in {p.rpartition(".")[2] for p in before})
    names = {path.rpartition(".")[2]: path for path in after}
    shown: set[str] = set()
    for path, own in sorted(before.items(), key=lambda item: len(item[1].mro)):
        name = path.rpartition(".")[2]
        other = after.get(path) or after.get(names.get(name, ""))
        if other is None:
            yield f"gone  {path}"
            continue
        lines = [line for line in field_changes(own, other) if line not in shown]
        shown.update(lines)
        if other.path != path:
            lines.insert(0, f"moved to {other.path}")
        if lines:
            yield name
            yield from (f"    {line}" for line in lines)


def configurations(tree: Tree) -> dict[str, Class]:
    """Every dataclass of Megatron-Bridge by its import path, and the transformer configuration of Megatron-Core."""
    reader = Reader(tree)
    found = {own.path: own for own, _ in found_in(reader)}
    for path in ("megatron.core.transformer.transformer_config.TransformerConfig",):
        own = reader.at(path)
        if own is not None:
            found[path] = own
    return found


def field_changes(old: Class, new: Class) -> Iterator[str]:
    """One line a field; two of the same type and default whose names are alike count as renamed."""
    gone = {name: entry for name, entry in old.fields.items() if name not in new.fields}
    come = {name: entry for name, entry in new.fields.items() if name not in old.fields}
    for name, entry in list(gone.items()):
        alike = difflib.get_close_matches(name, [other for other, one in come.items() if one == entry], n=1, cutoff=0.75)
        if alike:
            yield f"renamed  {name} -> {alike[0]}"
            del gone[name], come[alike[0]]
    yield from (f"new      {name}: {' = '.join(map(repr, entry[:2]))}" for name, entry in come.items())
    yield from (f"gone     {name}" for name in gone)
    for name, entry in old.fields.items():
        other = new.fields.get(name, entry)
        if entry[:1] != other[:1]:
            yield f"type     {name}: {entry[0]} -> {other[0]}"
        if entry[1:2] != other[1:2] and [UNREAD] not in (entry[1:2], other[1:2]):
            yield f"default  {name}: {entry[1:2]} -> {other[1:2]}"


def refusal_changes(old: Tree, new: Tree) -> Iterator[str]:
    """Per function, the conditions under which it refuses that are only on one side."""
    before, after = refusals(old), refusals(new)
    for name in sorted({*before, *after}):
        lines = [
            line
            for line in difflib.unified_diff(before.get(name, []), after.get(name, []), lineterm="", n=0)
            if line[:1] in "+-" and line[:3] not in ("+++", "---")
        ]
        if lines:
            yield name if name in before and name in after else f"{name} ({'new' if name in after else 'gone'})"
            yield from (f"    {line}" for line in lines)


def refusals(tree: Tree) -> dict[str, list[str]]:
    """Function -> what it refuses: the conditions of its asserts, and those around its raises."""
    found: dict[str, list[str]] = {}
    for package in CHECKED:
        one = tree.module(package)
        modules = list(tree.modules(package)) or ([one] if one is not None else [])
        for module in modules:
            for name, function in functions(module):
                conditions = list(conditions_of(function.body, ()))
                if conditions:
                    found[f"{module.name.removeprefix('megatron.')}.{name}"] = conditions
    return found


def functions(module: Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods by name."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{item.name}", item) for item in node.body if isinstance(item, ast.FunctionDef))


def conditions_of(body: list[ast.stmt], around: tuple[str, ...]) -> Iterator[str]:
    """The conditions under which statements refuse."""
    for node in body:
        if isinstance(node, ast.Assert):
            yield " and ".join((*around, f"not ({ast.unparse(node.test)})"))
        elif isinstance(node, ast.Raise):
            yield " and ".join(around) or "always"
        elif isinstance(node, ast.If):
            test = ast.unparse(node.test)
            yield from conditions_of(node.body, (*around, test))
            yield from conditions_of(node.orelse, (*around, f"not ({test})"))
        elif isinstance(node, (ast.For, ast.While, ast.With)):
            yield from conditions_of(node.body, around)
        elif isinstance(node, ast.Try):
            yield from conditions_of(node.body, around)
            for handler in node.handlers:
                yield from conditions_of(handler.body, (*around, "on an error"))


def recipe_changes(old: Tree, new: Tree) -> Iterator[str]:
    """Recipe functions by name, and the values that recipes of one name give otherwise, the most frequent changes first."""
    before, after = recipes_of(old), recipes_of(new)
    yield from (f"new   {name}" for name in sorted(after.keys() - before.keys()))
    yield from (f"gone  {name}" for name in sorted(before.keys() - after.keys()))
    changes: dict[str, list[str]] = {}
    for name in sorted(before.keys() & after.keys()):
        one, other = before[name], after[name]
        if bool(one.why) != bool(other.why):
            changes.setdefault(f"{one.why or 'can be read'} -> {other.why or 'can be read'}", []).append(name)
            continue
        for path in sorted(one.values.keys() | other.values.keys()):
            left, right = (one.values.get(path, "the default"), other.values.get(path, "the default"))
            if left != right and path not in (*one.open, *other.open):
                changes.setdefault(f"{path}: {left} -> {right}", []).append(name)
    for change, names in sorted(changes.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{change[:_WIDEST]}  ({', '.join(names[:_NAMED])}{more})"


def recipes_of(tree: Tree) -> dict[str, Read]:
    """Every recipe, read; those for performance of pretraining by name alone, as the facts hold them."""
    reader, found = Reader(tree), {}
    for name, function in names_of(tree).functions.items():
        by_name = function.module.name.startswith(PERFORMANCE) and "pretrain" in name
        found[name] = Read(function.module.name) if by_name else read_recipe(reader, function)
    return found


def missing_tests(new: Path) -> Iterator[str]:
    """Test files that `mbpack verify` names and the checkout lacks; a package has no tests to look for."""
    if not (new / "tests").is_dir():
        yield "no checkout: not looked for"
        return
    paths = sorted({test.path for test in upstream_tests._TESTS})
    yield from (f"gone  {path}" for path in paths if not (new / path).exists())


if __name__ == "__main__":
    main()
