"""All recipes of a tree, and what can be said of how they were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from mbpack.facts.recipes import UNREAD
from mbpack.learn.lists.fields import Reader
from mbpack.learn.recipes.names import PERFORMANCE, recipe_names
from mbpack.learn.recipes.read import NO_CONTAINER, read_recipe
from mbpack.learn.recipes.store import Known, stored

#: Names that a summary lists of each kind.
_SHOWN = 6


class Recipes(Struct):
    """The recipes of a tree: name -> module, other names, what they hold, and why of some only the name is known."""

    modules: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_name: dict[str, str] = field(default_factory=dict)
    called: bool = False

    def lines(self) -> bytes:
        """The file that keeps them: one recipe a line."""
        found = [f"{name}\t".encode() + msgspec.json.encode(held) for name, held in self.held.items()]
        return b"\n".join([b"mbpack-learned-recipes", *found, b""])

    def unread(self) -> Counter[str]:
        """Paths whose value is not known, by how many recipes have them."""
        return Counter(path for held in self.held.values() for path, value in held.items() if value == UNREAD)

    def values(self) -> int:
        """How many values were read."""
        return sum(
            path[0] != "@" and path[-1] != "?" and value != UNREAD for held in self.held.values() for path, value in held.items()
        )

    def summary(self) -> Iterator[str]:
        """What the command prints of them."""
        how = "called" if self.called else "read"
        yield f"  recipes   {len(self.modules)}, {self.values():,} values of {len(self.held)} {how}"
        for why, count in Counter(self.by_name.values()).most_common():
            yield f"            {count} by name alone: {why}"
        unread = self.unread()
        if unread:
            shown = ", ".join(f"{path} ({count})" for path, count in unread.most_common(_SHOWN))
            more = f" and {len(unread) - _SHOWN} more paths" if len(unread) > _SHOWN else ""
            yield f"  not read  {unread.total()} values that a public model's configuration or the machine decides: {shown}{more}"
        open_models = sum("@complete" in held for held in self.held.values())
        if open_models:
            known = sum("@complete" in held and "@model_class" in held for held in self.held.values())
            yield (
                f"  models    {open_models} made from public configurations: what the recipe sets is read, the rest likely as in the "
                f"release mbpack knows ({known}), or unknown ({open_models - known})"
            )


def read_all(reader: Reader, release: str, classes: Mapping[str, str]) -> Recipes:
    """Read every recipe of a tree; ``release`` is the nearest one that mbpack knows, ``classes`` name -> import path."""
    names, found, known = recipe_names(reader.tree), Recipes(), Known(release)
    paths = {path: name for name, path in classes.items()}
    fields = {name: one.fields for name, path in classes.items() if (one := reader.at(path)) is not None}
    for name, function in {**names.functions, **names.bases}.items():
        module = function.module.name
        if module.startswith(PERFORMANCE) and "pretrain" in name:
            found.modules[name] = module
            found.by_name[name] = "performance recipes for pretraining"
            continue
        read = read_recipe(reader, function)
        if read.why == NO_CONTAINER:
            continue
        found.modules[name] = module
        if read.why:
            found.by_name[name] = read.why
        else:
            found.held[name] = stored(name, read, paths, known, fields)
    found.aliases = {alias: name for alias, name in names.aliases.items() if name in found.modules}
    return found
