#!/usr/bin/env python3
"""Add recipes of a tree to the recipe data of a release that cannot be run: their values are read, nothing is called.

usage: python tools/read_recipes.py RELEASE TREE NAME [NAME ...] [--data DIR]

TREE is a checkout or a folder of packages. A NAME may be an alias. What a public model's configuration tells is taken from
a recipe of the same model in the data, or in those of the last release that ran, and stays marked as likely; a value that
reading cannot tell is left out, and the recipe is marked as incomplete.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import factsfile

from mbpack.facts import recipes
from mbpack.facts.releases import NIGHTLY
from mbpack.facts.schema import Schema, classes
from mbpack.learn.lists.fields import Reader
from mbpack.learn.lists.tree import open_tree
from mbpack.learn.recipes.names import recipe_names
from mbpack.learn.recipes.read import read_recipe
from mbpack.learn.recipes.store import Known, stored

KINDS = ("model", "section", "dataset", "nested", "peft")


def read(release: str, tree: str, names: list[str]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What the named recipes of a tree hold, and the names among them that are aliases."""
    reader, schema = Reader(open_tree(tree)), Schema(release, shipped=True)
    paths = {schema.path(name) or "": name for kind in KINDS for name in classes(release, kind)}
    newest = Schema(NIGHTLY.name, shipped=True)
    fields = {name: {**(schema.raw_fields(name) or {}), **(newest.raw_fields(name) or {})} for name in paths.values()}
    there, known, found = recipe_names(reader.tree), Known(release), {}
    aliases = {name: there.aliases[name] for name in names if name in there.aliases}
    for name in names:
        if name in aliases:
            continue
        one = read_recipe(reader, there.functions[name])
        if one.why:
            raise SystemExit(f"{name}: {one.why}")
        held = stored(name, one, paths, known, fields)
        unread = [path for path, value in held.items() if value == recipes.UNREAD]
        print(f"{name}: {sum(path[0] != '@' for path in held) - len(unread)} values; not read: {', '.join(unread) or 'none'}")
        found[name] = {**{path: value for path, value in held.items() if path not in unread}, "@complete": False}
    return found, aliases


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release")
    parser.add_argument("tree")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[1] / "src/mbpack/facts/data")
    arguments = parser.parse_args()
    path = arguments.data / f"recipes-{arguments.release}.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()
    head, aliases = (json.loads(line.partition("\t")[2]) for line in lines[:2])
    held = {line.partition("\t")[0]: recipes.stored(arguments.release, line.partition("\t")[0]) for line in lines[4:]}
    added, more = read(arguments.release, arguments.tree, arguments.names)
    factsfile.write_recipes(path, {**head, "aliases": {**aliases, **more}, "recipes": {**held, **added}})


if __name__ == "__main__":
    main()
