"""Random programs are run with stand-ins: what the reader says of their settings is what the run shows, or unknown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbpack.config.document import Document, Interpolation, Item
from mbpack.config.python import Made, Variant, read_program
from tests.config.python import standins
from tests.config.python.programs import programs

FACTOR = int(os.environ.get("MBPACK_FUZZ_FACTOR", "1"))
Path = tuple[str, ...]


@settings(max_examples=60 * FACTOR, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.sampled_from([[], ["--size", "8"], ["--flag"], ["--name", "large", "--size", "2"]]), st.booleans())
def test_what_is_read_is_what_runs(source: str, arguments: list[str], named: bool) -> None:
    made, _ = read_program(source, None, "0.6", lambda name: None)
    if not made:
        return
    check(source, made, standins.run(source), usual=True)
    environment = {"MBPACK_SIZE": "7", "MBPACK_NAME": "given"} if named else {}
    check(source, made, standins.run(source, arguments, environment), usual=False)


def check(source: str, made: list[Made], handed: list[tuple[int, standins.Thing]], usual: bool) -> None:
    """Compare the last configuration that was handed over with the last one that was read, where both are of one call."""
    for line, config in handed[-1:]:
        read = [entry for entry in made if entry.line == line and not entry.label]
        if len(read) == 1:
            compare(read[0].variants[1 if usual else 0], config, source, read[0].base)


def compare(variant: Variant, config: standins.Thing, source: str, base: str | None) -> None:
    """Every value that was read holds, and whatever the program changed was read or is unknown."""
    context = f"\n{source}"
    opaque = {path for document in variant.documents for path in document.opaque}
    if () in opaque:
        base = None
    if base is not None:
        assert config.name == base, context
    for document in variant.documents:
        _holds(document, config, context)
    if base is None:
        return
    for path, value in _leaves(standins.recipe(base)):
        if any(path[:depth] in opaque for depth in range(len(path) + 1)):
            continue
        actual = _at(config, path)
        if actual is not _MISSING and not _same(actual, value):
            assert _written(variant, path), f"{path} became {actual!r}, and nothing was read of it{context}"


_MISSING: Any = object()


def _holds(document: Document, config: Any, context: str) -> None:
    for path, item in _items(document.root, ()):
        if path[-1] in ("_target_", "_call_", "_args_") or isinstance(item.value, (dict, Interpolation)):
            continue
        value = item.plain
        if isinstance(value, list) and any(isinstance(child.value, Interpolation) for child in item.value):
            continue
        actual = _at(config, path)
        assert _same(actual, value), f"{path}: read {value!r}, ran {actual!r}{context}"


def _items(item: Item | None, path: Path) -> list[tuple[Path, Item]]:
    found: list[tuple[Path, Item]] = []
    if item is not None and isinstance(item.value, dict):
        for name, child in item.value.items():
            found += [((*path, name), child), *_items(child, (*path, name))]
    return found


def _leaves(thing: standins.Thing, path: Path = ()) -> list[tuple[Path, Any]]:
    found: list[tuple[Path, Any]] = []
    for name, value in vars(thing).items():
        found += _leaves(value, (*path, name)) if isinstance(value, standins.Thing) else [((*path, name), value)]
    return [(path, value) for path, value in found if path != ("name",)]


def _at(thing: Any, path: Path) -> Any:
    for name in path:
        thing = thing.get(name, _MISSING) if isinstance(thing, Mapping) else getattr(thing, name, _MISSING)
    return thing


def _same(actual: Any, value: Any) -> bool:
    if isinstance(actual, (tuple, list)) and isinstance(value, (tuple, list)):
        return len(actual) == len(value) and all(map(_same, actual, value))
    return type(actual) is type(value) and bool(actual == value)


def _written(variant: Variant, path: Path) -> bool:
    """Whether something was read at a path, or what holds it was made anew or is unknown."""
    for document in variant.documents:
        item: Item | None = document.root
        for depth, name in enumerate(path):
            if path[:depth] in document.made or path[:depth] in document.opaque:
                return True
            if item is None or not isinstance(item.value, dict):
                return item is not None
            item = item.value.get(name)
        if item is not None:
            return True
    return False
