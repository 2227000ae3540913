"""A document reads as OmegaConf.load reads it, and is refused when OmegaConf refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from omegaconf import OmegaConf

from mbpack.config.document import parse
from tests.config.config_oracle import REFUSED, examples, our_reading, read_text, same
from tests.config.config_texts import REFUSED_WORDS, WORDS, damaged, dumped, texts, words


def check(text: str) -> None:
    ours, theirs = our_reading(parse(text)), read_text(text)
    assert same(theirs, ours), (theirs, ours, parse(text).problems)


@pytest.mark.parametrize("word", [*WORDS, *REFUSED_WORDS])
def test_a_word_as_a_value(word: str) -> None:
    check(f"key: {word}\n")
    check(f"- {word}\n")
    check(f"key: [{word}, 1]\n")


@examples(60)
@given(words)
def test_any_word_as_a_value(word: str) -> None:
    check(f"key: {word}\n")


@examples(60)
@given(texts())
def test_documents_written_by_hand(text: str) -> None:
    assume(not _differs_on_purpose(text))
    check(text)


@examples(60)
@given(dumped())
def test_documents_written_by_pyyaml(text: str) -> None:
    assume(not _differs_on_purpose(text))
    check(text)


@examples(60)
@given(damaged())
def test_damaged_documents(text: str) -> None:
    assume(not _differs_on_purpose(text))
    check(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "---\n",
        "~\n",
        "---\na: 1\n...\n",
        "a: 1\n---\n",
        "a: 1\n---\nb: 2\n",
        "%YAML 1.1\n---\na: 1\n",
        "%YAML 2.0\n---\na: 1\n",
        "%TAG !e! tag:yaml.org,2002:\n---\na: !e!int 3\n",
        "a: 1\na: 2\n",
        "a: 1\n'a': 2\n",
        "1: a\n1: b\n",
        "a: 1\nA: 2\n",
        "a:\n  b: 1\n  b: 2\n",
        "? a\n",
        "a: ? b\n",
        "a:\tb\n",
        "a: b\t# c\n",
        "\ta: b\n",
        "a: |#\n  x\n",
        "a: [b?c]\n",
        "a: [???]\n",
        "a: {b: ???}\n",
        "a: \ufeffb\n",
        "\ufeffa: 1\n",
        "a: \u2028b\n",
        "a: \x85b\n",
        "a: 1\r\nb: 2\r\n",
        "a: 1\rb: 2\r",
        "a: \x00\n",
        "a: \x07\n",
        "word\n",
        "two words\n",
        "12\n",
        "- 1\n",
        "a: &x {b: 1}\nc: *x\n",
        "a: &x {b: 1}\nc: &x {b: 2}\n",
        "a: *x\n",
        "a: &x [*x]\n",
        "a: &x\nb: *x\n",
        "a: &x {b: 1, cc: 2}\nd: {<<: *x, cc: 3}\n",
        "a: &x {bb: 1}\nd: {<<: [*x, {cc: 2}], <<: {dd: 3}}\n",
        "a: &x {bb: 1, <<: *x}\n",
        "a: &x\n  bb: 1\n  cc:\n    <<: *x\n    cc: 2\n",
        "a: &x\n  bb: 1\n  cc:\n    <<: *x\n",
        "t:\n  d:\n    a: &a {xx: 1}\n    b: &b {<<: *a, xx: 2}\nc: {<<: *b}\n",
        "a: &a {xx: 1}\nb: &b {<<: *a, xx: 2}\nc: {<<: *b}\n",
        "<<: 3\n",
        "<<: [1]\n",
        "a: <<\n",
        "'<<': 1\n",
        "=: 1\n",
        "a: =\n",
        "~: 1\n",
        "[1]: 1\n",
        "a: !!python/object/apply:pathlib.PosixPath [a, b]\n",
        "a: !!python/object/apply:pathlib.PosixPath [a, 1]\n",
        "a: !!python/object/apply:os.system [ls]\n",
        "a: !!python/tuple [1]\n",
        "a: !!timestamp 2020-01-01\n",
        "a: !!set {b, c}\n",
        "!!int a: 1\n",
        "!!map a: 1\n",
        "a: !!map [1]\n",
        "a: !!str [1]\n",
    ],
)
def test_corner_cases(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "data",
    [
        b"a: 1\r\nb: |\r\n  x\r\n  y\r\nc: 'p\r\n  q'\r\n",
        b"a: 1\rb: |\r  x\r  y\rc: 'p\r\r  q'\r",
        b"\xef\xbb\xbfa: 1\n",
        "a: \u00e9\nb: '\u65e5'\n".encode(),
        "a: \u00e9\n".encode("latin-1"),
        "a: 1\n".encode("utf-16"),
        b"a: 1\n\x00",
        b"",
    ],
)
def test_files_as_bytes(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(data)
    try:
        theirs = OmegaConf.to_container(OmegaConf.load(path))
    except Exception:  # UnicodeDecodeError, YAMLError
        theirs = REFUSED
    assert same(theirs, our_reading(parse(data)))


# What mbpack reads differently, and why. Every difference is on purpose, and none occurs in a real configuration.


def _differs_on_purpose(text: str) -> bool:
    return "!!omap" in text or "!!pairs" in text or any(p.kind in {"merge-conflict", "too-deep"} for p in parse(text).problems)


def refused_here_only(text: str) -> bool:
    return our_reading(parse(text)) == REFUSED and read_text(text) != REFUSED


def test_ordered_maps_are_refused() -> None:
    """OmegaConf reads them as lists of pairs, which no field of Megatron-Bridge takes."""
    assert refused_here_only("a: !!omap [b: 1]\n")
    assert refused_here_only("a: !!pairs [b: 1]\n")


def test_nesting_ends_at_80_levels() -> None:
    """OmegaConf raises RecursionError somewhere between 75 and 90 levels, depending on who calls it."""
    assert our_reading(parse("a: " + "[" * 79 + "]" * 79)) != REFUSED
    for opening, closing in (("[", "]"), ("{a: ", "}")):
        document = parse("a: " + opening * 100 + closing * 100)
        assert [problem.kind for problem in document.problems] == ["too-deep"]


def test_aliases_unfold_to_200_000_values() -> None:
    """OmegaConf copies every alias and would need memory without end."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert [problem.kind for problem in parse("\n".join(lines)).problems] == ["alias-bomb"]


def test_numbers_of_more_than_4300_digits_are_refused() -> None:
    """OmegaConf reads them in hexadecimal, but Python then cannot print them."""
    assert refused_here_only("a: 0x" + "f" * 5000)


def test_a_quoted_string_at_the_top_is_no_configuration() -> None:
    """OmegaConf reads the string as YAML once more."""
    assert refused_here_only("'a: 1'\n")
    assert refused_here_only("|\n  a: 1\n")
    assert refused_here_only("one\n\n- two\n")


def test_of_two_merged_mappings_the_first_wins() -> None:
    """YAML says so, and PyYAML did up to 6.0.3; 6.0.4 lets the last win. So there is a note."""
    document = parse("a: &a {xx: 1}\nb: &b {xx: 2}\nc: {<<: [*a, *b]}\n")
    assert our_reading(document) == {"a": {"xx": 1}, "b": {"xx": 2}, "c": {"xx": 1}}
    assert [(problem.kind, problem.fatal) for problem in document.problems] == [("merge-conflict", False)]


def test_a_path_is_kept_as_text() -> None:
    """OmegaConf makes a pathlib.Path of it."""
    assert our_reading(parse("a: !!python/object/apply:pathlib.PosixPath [/, b]\n")) == {"a": "/b"}
