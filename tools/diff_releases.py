#!/usr/bin/env python3
"""What changed between two releases: the checklist for supporting a new one.

usage: python tools/diff_releases.py OLD NEW [--all] [--recipes]

OLD and NEW are releases that mbpack has data for ("0.5" "0.6"). Lists new, gone, moved and renamed classes and, per
class, new, gone, renamed, re-typed and re-defaulted fields. A field counts as renamed when one goes and another of the
same type and default comes whose name resembles it, or when `mbpack.facts.keys` says so. Model classes only show what
their base class does not already show, unless `--all` is given. `--recipes` adds what the recipes set differently.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from mbpack.facts import recipes
from mbpack.facts.keys import RENAMES
from mbpack.facts.schema import NO_DEFAULT, Field, Schema, classes, schema

KINDS = ("section", "dataset", "nested", "peft", "model")
Fields = Mapping[str, Field]


def default(field: Field) -> str:
    """A default as text."""
    return "required" if field.default is NO_DEFAULT else repr(getattr(field.default, "text", field.default))


def renamed(gone: Fields, new: Fields) -> dict[str, str]:
    """Old name -> new name of fields that seem to be the same one."""
    known = {rename.old.rpartition(".")[2]: rename.new.rpartition(".")[2] for rename in RENAMES}
    found: dict[str, str] = {}
    for name, field in gone.items():
        candidates = [n for n, f in new.items() if f.type == field.type and f.default == field.default]
        close = difflib.get_close_matches(name, [n for n in candidates if n not in found.values()], n=1, cutoff=0.75)
        if known.get(name) in new:
            found[name] = known[name]
        elif close:
            found[name] = close[0]
    return found


def field_changes(old: Fields, new: Fields) -> Iterator[str]:
    """One line per field that differs between two versions of a class."""
    gone = {n: f for n, f in old.items() if n not in new}
    come = {n: f for n, f in new.items() if n not in old}
    names = renamed(gone, come)
    for before, after in names.items():
        yield f"renamed     {before} -> {after}"
    for name, field in come.items():
        if name not in names.values():
            yield f"new         {name}: {field.type} = {default(field)}"
    for name in gone:
        if name not in names:
            yield f"gone        {name}"
    for name, field in old.items():
        other = new.get(name)
        if other is None:
            continue
        if default(field) != default(other):
            yield f"default     {name}: {default(field)} -> {default(other)}"
        if field.type != other.type:
            yield f"type        {name}: {field.type} -> {other.type}"
        if field.init != other.init:
            yield f"constructor {name}: {'takes it' if other.init else 'no longer takes it'}"


def class_changes(old: Schema, new: Schema, everything: bool) -> Iterator[str]:
    """The report on classes and their fields."""
    base_changes: frozenset[str] = frozenset()
    for kind in KINDS:
        before, after = classes(old.release, kind), classes(new.release, kind)
        if kind == "model":
            before.sort(key=lambda name: name != "GPTModelProvider")
        moved = {n: (old.path(n), new.path(n)) for n in before if n in after and old.path(n) != new.path(n)}
        yield f"\n## {kind} classes"
        yield from (f"new   {name}  {new.path(name)}" for name in after if name not in before)
        yield from (f"gone  {name}  {old.path(name)}" for name in before if name not in after)
        yield from (f"moved {name}  {a} -> {b}" for name, (a, b) in moved.items())
        for name in before:
            if name not in after:
                continue
            lines = list(field_changes(old.fields(name) or {}, new.fields(name) or {}))
            if name == "GPTModelProvider":
                base_changes = frozenset(lines)
            elif kind == "model" and not everything:
                lines = [line for line in lines if line not in base_changes]
            if lines:
                yield f"{name}"
                yield from (f"    {line}" for line in lines)


def other_changes(old: Schema, new: Schema) -> Iterator[str]:
    """Sections, enumerations and mixed-precision names."""
    yield "\n## sections"
    yield from (f"new   {name}" for name in new.sections if name not in old.sections)
    yield from (f"gone  {name}" for name in old.sections if name not in new.sections)
    yield "\n## enumerations"
    for name in sorted({*old.enums, *new.enums}):
        if old.enums.get(name) != new.enums.get(name):
            yield f"{name}: {list(old.enums.get(name, ()))} -> {list(new.enums.get(name, ()))}"
    yield "\n## mixed precision names"
    yield from (f"new   {name}" for name in new.mixed_precision_names if name not in old.mixed_precision_names)
    yield from (f"gone  {name}" for name in old.mixed_precision_names if name not in new.mixed_precision_names)
    for name in new.mixed_precision_names:
        a, b = old.mixed_precision(name), new.mixed_precision(name)
        if a is not None and b is not None:
            differing = {k: (a.get(k), b.get(k)) for k in {*a, *b} if k in a and k in b and a[k] != b[k]}
            if differing:
                yield f"{name}: {differing}"


def recipe_changes(old: str, new: str) -> Iterator[str]:
    """New, gone and renamed recipes, and what those of the same name set differently."""
    yield "\n## recipes"
    before, after = recipes.names(old), recipes.names(new)
    for name in before:
        found = recipes.find(new, name)
        if found is None:
            yield f"gone     {name}"
        elif found.name != name:
            yield f"renamed  {name} -> {found.name}"
    kept = {found.name for name in before if (found := recipes.find(new, name)) is not None}
    yield from (f"new      {name}" for name in after if name not in kept)
    for name in before:
        a, b = recipes.find(old, name), recipes.find(new, name)
        if a is None or b is None or a.unavailable or b.unavailable:
            continue
        values: list[tuple[str, Any, Any]] = [
            (path, a.value(path), b.value(path))
            for path in sorted({*a.values, *b.values})
            if not path.endswith("_target_") and dict not in (type(a.values.get(path)), type(b.values.get(path)))
        ]
        differing = [f"    {path}: {x!r} -> {y!r}" for path, x, y in values if x != y and path not in a.likely]
        if differing:
            yield f"differs  {name}"
            yield from differing


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--all", action="store_true", help="model classes in full")
    parser.add_argument("--recipes", action="store_true", help="compare the recipes as well")
    arguments = parser.parse_args()
    old, new = schema(arguments.old), schema(arguments.new)
    print(f"# {arguments.old} {dict(old.packages)} -> {arguments.new} {dict(new.packages)}")
    for line in class_changes(old, new, arguments.all):
        print(line)
    for line in other_changes(old, new):
        print(line)
    if arguments.recipes:
        for line in recipe_changes(arguments.old, arguments.new):
            print(line)


if __name__ == "__main__":
    main()
