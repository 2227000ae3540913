"""Seeded generator of override files as people write them, on recipes of a release.

Rows: {"id", "release", "recipe", "gpus", "launcher", "yaml", "aim"} and, in some, "overrides" (KEY=VALUE pairs). The text is
built line by line, not dumped, so that quoting, number forms, nulls and duplicate keys are as a person would leave them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from .names import NAMES
from .override_changes import CHANGES
from .writer import Tree, Writer


def override_rows(release: str, recipes: dict[str, Tree], count: int, seed: int, pairs: bool = False) -> Iterator[Tree]:
    """`recipes`: name -> values as `judge.load_recipes` gives them; with `pairs` some values come as KEY=VALUE."""
    usable = sorted(n for n, v in recipes.items() if v["heads"] and v["gbs"] and "wan" not in n and isinstance(v["tp"], int))
    for number in range(count):
        rng = random.Random(f"{release}/overrides/{seed}/{number}")
        recipe = rng.choice(usable)
        writer = Writer(rng, NAMES[release], recipes[recipe])
        writer.ordinary()
        for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2))):
            name, change = rng.choice(CHANGES)
            change(writer)
            writer.aim.append(name)
        if pairs and writer.chance(0.5):
            writer.move_to_command_line()
        row: Tree = {"id": f"{release}-v{seed}-{number:04d}", "release": release, "recipe": recipe, "gpus": writer.gpus}
        row |= {"launcher": "script", "yaml": writer.text(), "aim": writer.aim}
        if pairs and writer.pairs:
            row["overrides"] = writer.pairs
        yield row
