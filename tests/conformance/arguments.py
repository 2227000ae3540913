"""Rows for the tree that arguments change: recorded override files with one to three KEY=VALUE arguments behind them.

The arguments set, add, force and delete keys that exist and keys that do not, whole sections, keys below single values and positions in
lists, with values, lists and mappings; one often works on what another has just done.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from mbpack.facts.schema import schema

from .one_field import LEFT_OUT, accepted_overrides, odd, places, written
from .rows import Row

Place = tuple[tuple[str, ...], str]
#: A plain sign most often, since the others have fewer ways to fail.
SIGNS = ("", "", "", "+", "+", "++", "~", "~", "~=")


def argument_rows(release: str, recipes: dict[str, Any], count: int, seed: int) -> Iterator[Row]:
    """``count`` rows; ``recipes`` as `judge.load_recipes` gives them."""
    rng = random.Random(f"arguments {release} {seed}")
    bases = accepted_overrides(release, recipes)
    known = schema(release)
    for number in range(count):
        base, tree, classes = rng.choice(bases)
        fields = [(path, kind) for path, _, kind in places(known, tree, classes)]
        row = {key: base[key] for key in ("gpus", "recipe", "launcher")}
        text = base["yaml"] if rng.random() < 0.7 else ""
        arguments = _arguments(rng, fields, list(_in_file(tree)) if text else [])
        yield {"id": f"{release}-a{seed}-{number:05}", "release": release, **row, "yaml": text, "overrides": arguments}


def _arguments(rng: random.Random, fields: list[Place], in_file: list[Place]) -> list[str]:
    made: list[str] = []
    path, kind = _place(rng, fields, in_file)
    for _ in range(rng.choice((1, 2, 2, 3))):
        made.append(_argument(rng, path, kind))
        path, kind = _related(rng, path, kind, fields) if rng.random() < 0.7 else _place(rng, fields, in_file)
    return made


def _place(rng: random.Random, fields: list[Place], in_file: list[Place]) -> Place:
    path, kind = rng.choice(in_file if in_file and rng.random() < 0.5 else fields)
    return _bent(rng, path, kind)


def _bent(rng: random.Random, path: tuple[str, ...], kind: str) -> Place:
    """A place, or one near it that may not exist: its owner, something below it, another name."""
    chance = rng.random()
    if chance < 0.75:
        return path, kind
    if chance < 0.83 and len(path) > 1:
        return path[:-1], "dict"
    if chance < 0.9:
        return (*path, rng.choice(("x", "0", "5"))), "int"
    return (*path[:-1], "bogus"), "int"


def _related(rng: random.Random, path: tuple[str, ...], kind: str, fields: list[Place]) -> Place:
    """The same key again, its owner, or another key of the same owner or below it."""
    near = [one for one in fields if one[0][: max(len(path) - 1, 1)] == path[: max(len(path) - 1, 1)]]
    return (path, kind) if rng.random() < 0.4 or not near else _bent(rng, *rng.choice(near))


def _argument(rng: random.Random, path: tuple[str, ...], kind: str) -> str:
    sign, key = rng.choice(SIGNS), ".".join(path)
    if sign == "~":
        return f"~{key}"
    value = rng.choice(odd(kind))
    if kind == "dict":
        value = rng.choice(
            (None, 3, {"bogus": 1}, {"seq_length": 4096}, {"global_batch_size": 16}, {}, {"seed": 1, "bogus": {"x": 1}})
        )
    return f"{sign.rstrip('=')}{key}={written(value)}"


def _in_file(tree: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[Place]:
    for key, value in tree.items():
        if isinstance(key, str) and not ".".join((*path, key)).endswith(LEFT_OUT):
            yield (*path, key), "dict" if isinstance(value, dict) else "list" if isinstance(value, list) else "int"
            if isinstance(value, dict):
                yield from _in_file(value, (*path, key))
