"""Rows that differ from an accepted configuration in one field: each field of each class meets each odd value.

The generator breaks what start-up is known to look at; these rows ask the fields that nobody thought of.
"""

from __future__ import annotations

import ast
import copy
import json
import random
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mbpack.facts.schema import Schema, schema

from .rows import DATA, Row, read

#: What a field gets, by the types that its annotation names; null goes to all.
ODD: dict[str, tuple[Any, ...]] = {
    "bool": (True, False, 0, "yes please"),
    "int": (0, -1, 1, 2, 3, 7, 1.5, "4"),
    "float": (0, -1, 0.5, 1, 2, "0.1"),
    "str": ("", "text", 300),  # no number that could be an open file
    "list": ([], [1], ["text"], "text", [0, 1], 2),
    "tuple": ([], [1], ["text"], "text", [0, 1], 2),
    "dict": ({}, {"text": 1}, "text", 2),
}
OTHERS: tuple[Any, ...] = (0, "text", True)
#: What every field gets besides.
COLLECTIONS: tuple[Any, ...] = ([1], {"text": 1})
#: What is true of the machine rather than of the configuration: no path of these rows exists.
LEFT_OUT = (
    "checkpoint.pretrained_checkpoint",
    "dataset.per_dataset_sequences_path",
    "packed_train_data_path",
    "packed_val_data_path",
)

Key = tuple[str, ...]
#: A recorded row, its file as a tree, and the classes of sections that the file gives no target.
Base = tuple[Row, dict[str, Any], dict[str, str | None]]
#: Path, class and value (as text) of a change, and the positions of the bases that it can be made on.
Changes = dict[tuple[Key, str, str], list[int]]


def one_field_rows(release: str, count: int, seed: int) -> Iterator[Row]:
    """``count`` rows on recorded accepted configurations of the release; no change comes twice before all have come once."""
    for base, config, marks in _changed(release, *_complete(release), count, seed):
        yield {**marks, "gpus": base["gpus"], "config": config}


@cache
def _complete(release: str) -> tuple[list[Base], Changes]:
    """The recorded accepted complete configurations of a release, and what may change in them."""
    bases: list[Base] = [(row, row["config"], {}) for row in _accepted("verdicts", release)]
    return bases, _changes(release, bases)


def one_field_overrides(release: str, recipes: dict[str, Any], count: int, seed: int, arguments: bool = False) -> Iterator[Row]:
    """The same on recorded override files, the change in the file or as an argument behind it.

    ``recipes`` are the main values of the recipes by name, as `judge.load_recipes` gives them.
    """
    bases = accepted_overrides(release, recipes)
    for base, tree, marks in _changed(release, bases, _changes(release, bases), count, seed):
        row = {**marks, **{key: base[key] for key in ("gpus", "recipe", "launcher")}}
        if arguments:
            key, value = marks["changed"]
            yield {**row, "yaml": base["yaml"], "overrides": [f"++{key}={written(ast.literal_eval(value))}"]}
        else:
            yield {**row, "yaml": yaml.safe_dump(tree, sort_keys=False)}


def accepted_overrides(release: str, recipes: dict[str, Any]) -> list[Base]:
    """The recorded accepted override files without arguments, on the recipes given."""
    bases: list[Base] = []
    for row in _accepted("overrides", release):
        tree, values = yaml.safe_load(row["yaml"] or "") or {}, recipes.get(row["recipe"])
        if isinstance(tree, dict) and values is not None and not row.get("overrides"):
            bases.append(
                (row, tree, {"model": values["model_class"], "dataset": values["dataset_class"], "peft": values["peft"]})
            )
    return bases


def written(value: Any) -> str:
    """A value as Hydra reads it behind ``KEY=``; texts in quotes, so that ``"4"`` stays one."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{written(child)}" for key, child in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


def recorded(path: Path, names: Collection[str] | None = None) -> list[Row]:
    """The rows of a corpus, those of this kind each put together from the complete configuration that it was made from.

    ``names``: of this kind, only the rows with these ids.
    """
    if path.parent.name != "fields":
        return read(path)
    bases = {row["id"]: row for row in read(path.parents[1] / "verdicts" / path.name)}
    return [
        {**row, "gpus": bases[row["base"]]["gpus"], "config": _with(bases[row["base"]]["config"], *row["changed"])}
        for row in read(path)
        if names is None or row["id"] in names
    ]


def _accepted(kind: str, release: str) -> list[Row]:
    return [row for row in read(DATA / kind / f"{release}.jsonl.gz") if row["expect"] == "accepted"]


def _changed(
    release: str, bases: list[Base], changes: Changes, count: int, seed: int
) -> Iterator[tuple[Row, dict[str, Any], Row]]:
    """A recorded row, its tree with one change, and the marks of the new row."""
    rng = random.Random(f"one field {release} {seed}")
    sorted_changes = sorted(changes, key=repr)
    number = 0
    while number < count:
        order = sorted_changes.copy()
        rng.shuffle(order)
        for path, cls, value in order[: count - number]:
            row, tree, _ = bases[rng.choice(changes[path, cls, value])]
            change = [".".join(path), value]
            marks = {"id": f"{release}-f{seed}-{number:05}", "release": release, "base": row["id"], "changed": change}
            yield row, _with(tree, *change), marks
            number += 1


def _with(tree: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    """A tree with another value for a key."""
    tree = copy.deepcopy(tree)
    *sections, name = key.split(".")
    holder = tree
    for section in sections:
        holder = holder.setdefault(section, {})
    holder[name] = ast.literal_eval(value)
    return tree


def _changes(release: str, bases: list[Base]) -> Changes:
    """Path, class and value (as text) of every change, and the bases that it can be made on. Model classes count as one."""
    known = schema(release)
    fields: dict[tuple[Key, str, str], list[int]] = {}
    for number, (_, tree, classes) in enumerate(bases):
        for path, cls, kind in places(known, tree, classes):
            fields.setdefault((path, cls, kind), []).append(number)
    found: Changes = {}
    for (path, cls, kind), numbers in fields.items():
        for value in map(repr, odd(kind)):
            found.setdefault((path, "" if path[0] == "model" else cls, value), []).extend(numbers)
    return found


def places(known: Schema, tree: dict[str, Any], classes: dict[str, str | None]) -> Iterator[tuple[Key, str, str]]:
    """Path, class and type of everything that the objects of a file take; ``classes``: those of sections without a target."""
    for section in known.sections:
        held = tree.get(section, {})
        if isinstance(held, dict):
            yield from _fields(known, (section,), held, classes.get(section) or known.section_class(section))


def _fields(known: Schema, path: Key, held: dict[str, Any], cls: str | None) -> Iterator[tuple[Key, str, str]]:
    target = held.get("_target_")
    cls = known.class_of(target) if isinstance(target, str) else cls
    for key, field in (known.fields(cls) or {}).items() if cls else ():
        if field.init and not ".".join((*path, key)).endswith(LEFT_OUT):
            yield (*path, key), cls or "", field.type
    for key, value in held.items():
        if isinstance(value, dict) and "_target_" in value and isinstance(key, str):
            yield from _fields(known, (*path, key), value, None)


def odd(kind: str) -> tuple[Any, ...]:
    """The values that a field of a type gets."""
    named = set(re.findall(r"[a-z]+", kind.lower()))
    fitting = [value for name, values in ODD.items() if name in named for value in values] or OTHERS
    return (None, *{repr(value): value for value in (*fitting, *COLLECTIONS)}.values())
