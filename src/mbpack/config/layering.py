"""Layers as the merged tree leaves them: without what an argument deletes and what a higher layer writes something else over.

Upstream merges everything into one tree before it looks at any of it: a value over which another is written is never seen. A
key that ``~key`` deletes is in no layer below the arguments, and a mapping over null or a single value takes its place; in both
cases the recipe's value of an object's field stays, since only what the tree holds is applied. Source:
`training/utils/omegaconf_utils.py`, `process_config_with_overrides`, all releases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from typing import TypeAlias

from mbpack.config.answers import Layer, Origin, Unknown
from mbpack.config.document import MISSING, Item
from mbpack.config.items import without

Path: TypeAlias = tuple[str, ...]


def settle(layers: Sequence[Layer]) -> tuple[list[Layer], frozenset[Path]]:
    """The layers (lowest first) without what is covered, and the paths that the recipe's tree loses; documents stay as they are."""
    settled: list[Layer] = []
    gone: set[Path] = set()
    for layer in layers:
        cut = [*layer.document.deleted, *sorted(layer.document.made - {()})]
        gone.update(cut)
        if settled:
            for path, anew in _covered(layer.root, [below.root for below in reversed(settled)], ()):
                cut.append(path)
                if anew:
                    gone.add(path)
        if cut:
            settled = [below._replace(root=_without_all(below.root, cut)) for below in settled]
        settled.append(layer)
    return settled, frozenset(gone)


def _covered(upper: Item, lower: Sequence[Item], path: Path) -> Iterator[tuple[Path, bool]]:
    """Where ``upper`` writes over what ``lower`` (highest first) says, and whether with a mapping that starts anew there."""
    for name, child in upper.value.items() if upper.value.__class__ is dict else ():
        below = [item.value[name] for item in lower if item.value.__class__ is dict and name in item.value]
        if not below or child.value is MISSING:
            continue
        if child.value.__class__ is not dict:
            yield (*path, name), False
            continue
        below = [item for item in below if item.value is not MISSING]
        if below and below[0].value.__class__ is not dict:
            if not (isinstance(below[0].value, list) and are_positions(child.value)):
                yield (*path, name), True
        elif below:
            yield from _covered(child, below, (*path, name))


def is_gone(path: Path, gone: Set[Path]) -> bool:
    """Whether the recipe's value at a path, or what holds it, is out of the merged tree; the recipe's object still has it."""
    return bool(gone) and any(path[:depth] in gone for depth in range(1, len(path) + 1))


def is_below(paths: Collection[Path], path: Path) -> bool:
    """Whether a path is one of some paths, or below one."""
    return bool(paths) and any(path[:depth] in paths for depth in range(len(path) + 1))


def stop_where_opaque(key: str, path: Path, layer: Layer) -> None:
    """A program that changed an object where it cannot be followed leaves open what nobody wrote after that.

    Raises:
        Unknown: the layer leaves the path open.
    """
    opaque = layer.document.opaque
    if opaque:
        for depth in range(len(path) + 1):
            if path[:depth] in opaque:
                raise Unknown(key, (), opaque[path[:depth]])


def files_as_written(layers: Sequence[Layer]) -> Iterator[Layer]:
    """The files of settled layers, which are given from the top, lowest first and uncut: they are merged before any argument."""
    for layer in reversed(layers):
        if layer.origin is Origin.FILE and layer.document.root is not None:
            yield layer._replace(root=layer.document.root)


def are_positions(mapping: Collection[object]) -> bool:
    """Whether the keys of an argument's mapping can be positions in a list."""
    return bool(mapping) and all(str(name).isdecimal() for name in mapping)


def _without_all(root: Item, paths: Sequence[Path]) -> Item:
    for path in paths:
        root = without(root, path)
    return root
