"""Layers as the merged tree leaves them."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from mbpack.config.answers import Layer, Origin
from mbpack.config.document import Document, parse
from mbpack.config.items import walk
from mbpack.config.layering import settle
from mbpack.config.overrides import as_document, parse_overrides
from tests.config.config_oracle import examples

NAMES = st.sampled_from("abc")
LEAVES = st.sampled_from([None, 1, "x", "???"])
TREES = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=6), max_size=3
)


def _layer(document: Document, origin: Origin = Origin.FILE) -> Layer:
    assert document.root is not None
    return Layer(document.root, origin, document)


def _settled(*texts: str, arguments: tuple[str, ...] = ()) -> tuple[list[Any], set[str]]:
    layers = [_layer(parse(text)) for text in texts]
    if arguments:
        layers.append(_layer(as_document(parse_overrides(arguments)), Origin.OVERRIDE))
    settled, gone = settle(layers)
    return [layer.root.plain for layer in settled], {".".join(path) for path in gone}


@examples(100)
@given(st.lists(TREES, min_size=1, max_size=3))
def test_settled_layers_are_the_merged_tree_and_say_everything_once(trees: list[dict[str, Any]]) -> None:
    settled, _ = settle([_layer(parse(yaml.safe_dump(tree))) for tree in trees])
    merged = OmegaConf.to_container(OmegaConf.merge(*[layer.root.plain for layer in settled]))
    assert merged == OmegaConf.to_container(OmegaConf.merge(*trees))
    said = [
        path
        for layer in settled
        for path, item in walk(layer.root)
        if path and item.plain != "???" and item.value.__class__ is not dict
    ]
    assert len(said) == len(set(said))


def test_a_value_written_over_is_in_no_layer() -> None:
    assert _settled("a: {b: 1, c: 2}", "a: {b: 3}") == ([{"a": {"c": 2}}, {"a": {"b": 3}}], set())


def test_a_mapping_over_a_value_starts_anew() -> None:
    assert _settled("a: {x: 1}", "a: 2", "a: {b: 3}") == ([{}, {}, {"a": {"b": 3}}], {"a"})


def test_the_marker_for_no_value_covers_nothing() -> None:
    assert _settled("a: 1", "a: ???") == ([{"a": 1}, {"a": "???"}], set())


def test_a_deletion_reaches_the_files_and_the_arguments_before_it() -> None:
    assert _settled("a: {b: 1, c: 2}", arguments=("a.b=3", "~a.b")) == ([{"a": {"c": 2}}, {"a": {}}], {"a.b"})
    assert _settled("a: {b: 1}", arguments=("~a", "+a.c=3")) == ([{}, {"a": {"c": 3}}], {"a"})


def test_a_mapping_over_what_an_argument_set_starts_anew() -> None:
    assert _settled("a: {b: 1}", arguments=("a=null", "+a.c=3")) == ([{}, {"a": {"c": 3}}], {"a"})
    assert _settled("a: {b: {c: 1}}", arguments=("a.b=3", "a={b: {d: 1}}")) == ([{"a": {}}, {"a": {"b": {"d": 1}}}], {"a.b"})


def test_positions_in_a_list_leave_the_list() -> None:
    assert _settled("a: [1, 2]", arguments=("a.0=3",)) == ([{"a": [1, 2]}, {"a": {"0": 3}}], set())


def test_documents_stay_as_they_are() -> None:
    document = parse("a: {b: 1}")
    settle([_layer(document), _layer(parse("a: 3"))])
    assert document.root is not None
    assert document.root.plain == {"a": {"b": 1}}
