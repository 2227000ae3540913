"""Unquoted words mean what they mean to OmegaConf's loader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from mbpack.config.scalars import ScalarError, resolve, resolve_tagged
from tests.config.config_oracle import REFUSED, examples, read_word, same
from tests.config.config_texts import REFUSED_WORDS, WORDS, words


def read(text: str) -> Any:
    try:
        return resolve(text)
    except ScalarError:
        return REFUSED


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096),
        ("4_096", 4096),
        ("0x10", 16),
        ("010", 8),
        ("1:30", 90),
        ("2e-5", 2e-5),
        ("8e3", 8000.0),
        (".5", 0.5),
        ("1:30.5", 90.5),
        (".inf", float("inf")),
        ("true", True),
        ("Off", False),
        ("~", None),
        ("", None),
        ("-.5", "-.5"),
        ("y", "y"),
        ("tRUE", "tRUE"),
        ("08", "08"),
        ("2020-01-01", "2020-01-01"),
        ("1e", "1e"),
    ],
)
def test_what_usual_words_mean(text: str, value: Any) -> None:
    assert same(resolve(text), value)


@pytest.mark.parametrize("text", ["=", "<<", "!", "0x_", "0b_"])
def test_words_that_the_loader_fails_on(text: str) -> None:
    with pytest.raises(ScalarError, match="quotes"):
        resolve(text)


@pytest.mark.parametrize("text", [*WORDS, *REFUSED_WORDS])
def test_listed_words_as_omegaconf_reads_them(text: str) -> None:
    assert same(read_word(text), read(text))


@examples(400)
@given(words)
def test_any_word_as_omegaconf_reads_it(text: str) -> None:
    assert same(read_word(text), read(text))


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "1" + ":0" * 500, "1" + ":0" * 500 + ".5", "0x" + "f" * 5000])
def test_numbers_without_measure_are_refused(text: str) -> None:
    """Python could not print them (or, before 3.11, would take minutes to read them)."""
    with pytest.raises(ScalarError):
        resolve(text)


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("int", "0x10", 16),
        ("float", "3", 3.0),
        ("bool", "YES", True),
        ("null", "x", None),
        ("str", "1", "1"),
        ("binary", "aGk=", b"hi"),
    ],
)
def test_words_with_a_tag(tag: str, text: str, value: Any) -> None:
    assert same(resolve_tagged(f"tag:yaml.org,2002:{tag}", text), value)


@pytest.mark.parametrize(
    ("tag", "text"),
    [("int", ""), ("int", "x"), ("float", "x"), ("bool", "x"), ("binary", "é"), ("set", "x"), ("timestamp", "x")],
)
def test_words_that_do_not_fit_their_tag(tag: str, text: str) -> None:
    with pytest.raises(ScalarError):
        resolve_tagged(f"tag:yaml.org,2002:{tag}", text)
