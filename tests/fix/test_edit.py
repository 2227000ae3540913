"""Single keys changed in a text: the right values afterwards, and every other character as it was."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.document import parse
from mbpack.config.edit import CannotEdit, Edited, delete_key, rename_key, same, set_key
from mbpack.config.splices import applied
from tests.fix import texts


def plain(text: str) -> Any:
    """The values of a text by PyYAML's own reading."""
    return yaml.safe_load(text) or {}


def find(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def has(tree: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


def without(tree: Any, path: tuple[str, ...]) -> Any:
    """The tree without a path and without sections that hold nothing (a section is null, empty or gone alike)."""
    if not isinstance(tree, dict):
        return tree
    kept = {key: without(value, path[1:] if path and path[0] == key else ()) for key, value in tree.items() if (key,) != path}
    return {key: value for key, value in kept.items() if value not in ({}, None)}


def replay(before: str, edited: Edited) -> str:
    text = before.removeprefix("\ufeff")
    for step in edited.steps:
        text = applied(text, step)
    return text


def edit(operation: Any, text: str, *arguments: Any) -> Edited | None:
    """The edit, checked to be made of its splices alone; None where it is left to the user."""
    document = parse(text)
    try:
        edited: Edited = operation(document, *arguments)
    except CannotEdit:
        return None
    assert edited.document.text == replay(text, edited)
    assert edited.document.encode(edited.document.text).decode().startswith("\ufeff") == text.startswith("\ufeff")
    return edited


def values(text: str) -> Any:
    document = parse(text)
    return document.root.plain if document.root is not None else None


SEEDS = st.integers(0, 2**40)


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_set(seed: int) -> None:
    random = Random(seed)
    before = texts.text(random)
    path = random.choice((*texts.paths(values(before)), texts.new_path(random)))
    value = random.choice(texts.VALUES)
    edited = edit(set_key, before, path, value)
    if edited is None:
        return
    after = edited.document.text
    assert same(find(values(after), path), value)
    assert without(plain(before), path) == without(plain(after), path)
    assert ("\r" in after) <= ("\r" in before)
    if "\r" in before:
        assert "\n" not in after.replace("\r\n", "")
    assert set_key(edited.document, path, value).document.text == after
    if not isinstance(value, dict) and has(values(before), path):
        held = find(values(before), path)
        if not isinstance(held, (dict, list)):
            changed = zip(parse(before).text.splitlines(), after.splitlines(), strict=True)
            assert sum(one != other for one, other in changed) <= 1


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_delete(seed: int) -> None:
    random = Random(seed)
    before = texts.text(random)
    written = texts.paths(values(before))
    if not written:
        return
    path = random.choice(written)
    edited = edit(delete_key, before, path)
    if edited is None:
        return
    after = edited.document.text
    assert not has(values(after), path)
    assert without(plain(before), path) == without(plain(after), ())
    kept = after.splitlines()
    assert all(line in kept for line in parse(before).text.splitlines() if line.startswith(("# mbpack", "# header", "---")))


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_rename(seed: int) -> None:
    random = Random(seed)
    before = texts.text(random)
    written = texts.paths(values(before))
    if not written:
        return
    path = random.choice(written)
    to = (*path[:-1], "other_name") if random.random() < 0.5 else texts.new_path(random)
    if path == to[: len(path)] or to == path[: len(to)] or has(values(before), to):
        return
    edited = edit(rename_key, before, path, to)
    if edited is None:
        return
    after = values(edited.document.text)
    assert same(find(after, to), find(values(before), path))
    assert not has(after, path)
    assert without(without(plain(edited.document.text), to), ()) == without(without(plain(before), path), to)


CASES = [
    ("a: {b: 1}\nz: 1", "delete", "a.b", None, "z: 1"),
    ("a:\n  b: 1\n  c: 2", "delete", "a.c", None, "a:\n  b: 1"),
    ("a:\r\n  b: 1\r\n", "set", "a.c", 2, "a:\r\n  b: 1\r\n  c: 2\r\n"),
    ("a: null # why\nz: 1\n", "set", "a.b", 1, "a: # why\n  b: 1\nz: 1\n"),
    ("a: ???\n", "set", "a.b", 1, "a:\n  b: 1\n"),
    ("a: {b}\n", "set", "a.b", 1, "a: {b: 1}\n"),
    ("a:\n    b: 'x'\n", "set", "a.b", "y z", "a:\n    b: 'y z'\n"),
    ("a:\n    b: 1\n", "set", "a.c.d", 1, "a:\n    b: 1\n    c:\n        d: 1\n"),
    ("a:\n  b:\n  - 1\n  - 2 # two\n  c: 1\n", "set", "a.b", [3], "a:\n  b: [3]\n  c: 1\n"),
    ("x: &b {u: 1}\na:\n  <<: *b\n  c: 1\n", "set", "a.u", 2, "x: &b {u: 1}\na:\n  <<: *b\n  c: 1\n  u: 2\n"),
    ("x: &b 1\na: *b # c\n", "set", "a", 2, "x: &b 1\na: 2 # c\n"),
    ("x: &b 1\na: 2\n", "set", "x", 2, "x: &b 2\na: 2\n"),
    ("x: 1\na: ${x}\n", "set", "a", 2, "x: 1\na: 2\n"),
    ("d:\n  # specs\n  x: 2\n", "set", "d._target_", "m.x", "d:\n  # specs\n  _target_: m.x\n  x: 2\n"),
    ("---\na: 1\n...\n", "set", "b.c", 2, "---\na: 1\nb:\n  c: 2\n...\n"),
    (
        "train:\n  mbs: 2\n\nmodel:\n  tp: 1\n",
        "set",
        "validation.i",
        1,
        "train:\n  mbs: 2\n\nvalidation:\n  i: 1\n\nmodel:\n  tp: 1\n",
    ),
    ("a:\n  'b': 1 # c\n", "rename", "a.b", "a.n", "a:\n  'n': 1 # c\n"),
    ("a:\n  b: '1' # c\n  d: 2\nz:\n  q: 0\n", "rename", "a.b", "z.n", "a:\n  d: 2\nz:\n  q: 0\n  n: '1' # c\n"),
    ("a:\n  b: 1\n  n: 3\n", "rename", "a.b", "a.n", "a:\n  n: 3\n"),
    ("a:\n  b: 1\n\n  c: 2\n", "set", "a.b", {"q": 1}, "a:\n  b:\n    q: 1\n\n  c: 2\n"),
]


@pytest.mark.parametrize(("text", "operation", "key", "value", "after"), CASES)
def test_style(text: str, operation: str, key: str, value: Any, after: str) -> None:
    path = tuple(key.split("."))
    document = parse(text)
    if operation == "set":
        edited = set_key(document, path, value)
    elif operation == "delete":
        edited = delete_key(document, path)
    else:
        edited = rename_key(document, path, tuple(value.split(".")))
    assert edited.document.text == after


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("x: &b {u: 1}\na: *b\n", "a.u", "anchor"),
        ("x: &b 1\na: *b\n", "x", "anchor"),
        ("x: 1\na: ${x}\n", "x", "a takes its value from here"),
        ("x: 1\na: {y: 1, b: '${.y}'}\n", "a.y", "a.b takes its value from here"),
        ("a: ${oc.env:SEQ,1}\n", "a", "expression"),
        ("a: 1\n", "a.b", "no mapping"),
    ],
)
def test_left_to_the_user(text: str, key: str, reason: str) -> None:
    with pytest.raises(CannotEdit, match=reason):
        set_key(parse(text), tuple(key.split(".")), 2)
