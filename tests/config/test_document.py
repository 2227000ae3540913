"""Places, problems, comments and bytes of a document."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.config import composer
from mbpack.config.document import MISSING, Document, Interpolation, Item, Problem, Span, parse, walk
from tests.config.config_oracle import examples
from tests.config.config_texts import damaged, dumped, texts

SAMPLE = """\
# mbpack: bridge=0.6
model:
  seq_length: 8192    # tokens
  "quoted key": 'x: y'
train: {micro_batch_size: 1, list: [1, 2]}
dataset:
  given: ???
  empty:
  note: |
    one
     two

  # after the note
  path: ${oc.env:DATA}/x
"""


def at(document: Document, *path: str | int) -> Item:
    item = document.root
    assert item is not None
    for part in path:
        item = item.value[part]
    return item


def written(document: Document, span: Span | None) -> str:
    assert span is not None
    return document.text[span.start : span.end]


def only(data: bytes | str) -> Problem:
    problems = parse(data).problems
    assert len(problems) == 1, problems
    return problems[0]


# ---------------------------------------------------------------- values and places


def test_values() -> None:
    document = parse(SAMPLE)
    assert at(document, "model", "seq_length").value == 8192
    assert at(document, "train", "list", 1).value == 2
    assert at(document, "dataset", "given").value is MISSING
    assert at(document, "dataset", "empty").value is None
    assert at(document, "dataset", "note").value == "one\n two\n"
    path = at(document, "dataset", "path").value
    assert isinstance(path, Interpolation)
    assert path == "${oc.env:DATA}/x"
    assert document.problems == []


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("model", "seq_length"), "seq_length", "8192"),
        (("model", "quoted key"), '"quoted key"', "'x: y'"),
        (("train",), "train", "{micro_batch_size: 1, list: [1, 2]}"),
        (("train", "list"), "list", "[1, 2]"),
        (("dataset", "empty"), "empty", ""),
        (("dataset", "note"), "note", "|\n    one\n     two"),
        (("model",), "model", "seq_length: 8192    # tokens\n  \"quoted key\": 'x: y'"),
    ],
)
def test_where_keys_and_values_are_written(path: tuple[str, ...], key: str, value: str) -> None:
    document = parse(SAMPLE)
    item = at(document, *path)
    assert written(document, item.key) == key
    assert written(document, item.span) == value


def test_lines_and_columns_count_from_one() -> None:
    document = parse(SAMPLE)
    item = at(document, "model", "seq_length")
    assert (item.span.line, item.span.column, item.span.end_line, item.span.end_column) == (3, 15, 3, 19)
    assert item.key is not None
    assert (item.key.line, item.key.column, item.key.end_column) == (3, 3, 13)
    empty = at(document, "dataset", "empty").span
    assert (empty.line, empty.column, empty.end_column) == (8, 9, 9)
    assert at(document, "train", "list", 0).key is None


def test_columns_are_characters_not_bytes() -> None:
    document = parse("é日本: [ü, 𝄞, x]\n".encode())
    assert at(document, "é日本", 2).span == Span(1, 13, 1, 14, 12, 13)


def test_how_values_are_written() -> None:
    document = parse("a: 'x'\nb: x\nc: |\n  x\nd: {}\ne:\n  - 1\n")
    assert [at(document, key).quoted for key in "abc"] == [True, False, True]
    assert at(document, "d").flow
    assert not at(document, "e").flow


def test_anchors_aliases_and_merges_are_not_local() -> None:
    document = parse("a: &x !!map\n  b: {c: 1}\nd: *x\ne:\n  <<: *x\n  f: 2\ng: 3\n")
    assert at(document, "a").anchored
    assert at(document, "a", "b", "c").anchored
    assert at(document, "d").anchored
    assert at(document, "e", "b").anchored
    assert not at(document, "e").anchored
    assert not at(document, "e", "f").anchored
    assert not at(document, "g").anchored
    assert written(document, at(document, "a").span) == "b: {c: 1}"
    assert written(document, at(document, "d").span) == "b: {c: 1}"
    assert written(document, at(document, "d").key) == "d"
    assert at(document, "e").span.end_line == 6


def test_an_anchor_and_a_tag_do_not_belong_to_the_value() -> None:
    document = parse("a: &x !!str  12 # note\n&k b: &y # note\n  - 1\nc: &z\n")
    assert written(document, at(document, "a").span) == "12"
    assert written(document, at(document, "b").span) == "- 1"
    assert written(document, at(document, "b").key) == "b"
    assert written(document, at(document, "c").span) == ""


@pytest.mark.parametrize("text", ["", "# note\n", "---\n", "~\n"])
def test_an_empty_file_is_an_empty_mapping(text: str) -> None:
    document = parse(text)
    assert at(document).value == {}
    assert document.readable
    assert document.problems == []


@examples(50)
@given(st.one_of(texts(), damaged(), dumped()))
def test_places_agree_with_the_text(text: str) -> None:
    document = parse(text)
    if document.root is None:
        return
    for _, item in walk(document.root):
        for span in (item.span, item.key):
            if span is not None:
                check_span(document.text, span)


def check_span(text: str, span: Span) -> None:
    assert 0 <= span.start <= span.end <= len(text)
    for offset, line, column in ((span.start, span.line, span.column), (span.end, span.end_line, span.end_column)):
        before = text[:offset].replace("\r\n", "\n").translate(dict.fromkeys(map(ord, "\r\x85\u2028\u2029"), "\n"))
        rows = before.split("\n")
        assert (line, column) == (len(rows), len(rows[-1].replace("\ufeff", "")) + 1)


@examples(30)
@given(dumped())
def test_a_plain_value_is_written_where_its_span_says(text: str) -> None:
    document = parse(text)
    assert document.root is not None
    for _, item in walk(document.root):
        if not isinstance(item.value, (dict, list)) and not item.anchored and "!!" not in text:
            again = parse(f"k: {written(document, item.span)}" if not item.quoted else "k: 0")
            if not item.quoted and item.span.line == item.span.end_line:
                assert repr(at(again, "k").value) == repr(item.value)


# ---------------------------------------------------------------- problems


@pytest.mark.parametrize(
    ("text", "kind", "line", "column", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate-key", 3, 1, "first in line 1"),
        ("a: 1\n---\nb: 2\n", "multi-document", 2, 1, "split the file"),
        ("a:\n\tb: 1\n", "tab", 2, 1, "use spaces"),
        ("a: 1\t# note\n", "tab", 1, 5, "use spaces"),
        ("a: b: c\n", "syntax", 1, 5, "in quotes"),
        ("a: [1, 2\nb: 3\n", "syntax", 1, 4, "not closed before line 2"),
        ("a: 'x\n", "syntax", 1, 4, "close it"),
        ("a: 'x' y\n", "syntax", 1, 8, "closing quote"),
        ("a: [x] y\n", "syntax", 1, 8, "closing bracket"),
        ("a: [x]]\n", "syntax", 1, 7, "delete it"),
        ("a: {b: ${c}}\n", "syntax", 1, 8, "`${...}` inside brackets"),
        ("a: [???]\n", "syntax", 1, 5, "`???` inside brackets"),
        ("a:1\nb: 2\n", "syntax", 1, 2, "space is missing"),
        ("a: 1\nb:2\nc: 3\n", "syntax", 2, 2, "space is missing"),
        ("a: 1\n  b: 2\n", "syntax", 2, 3, "below line 1"),
        ("a: 1\n- b\n", "syntax", 2, 1, "list item"),
        ("a: - b\n", "syntax", 1, 4, "line of its own"),
        ("a: 1\n<<<<<<< HEAD\nb: 2\n", "syntax", 2, 1, "merge conflict"),
        ("a: {{ b }}\n", "non-string-key", 1, 5, "in quotes"),
        ("a: @x\n", "syntax", 1, 4, "put it in quotes"),
        ("a: %x\n", "syntax", 1, 4, "put it in quotes"),
        ("a: *x\n", "syntax", 1, 4, "no anchor"),
        ("a:\n  b: 1\n c: 2\n", "syntax", 3, 2, "indentation"),
        ("a: 1\nb\nc: 2\n", "syntax", 2, 1, "colon"),
        ('a: "\\q"\n', "syntax", 1, 6, "backslash"),
        ("a: ${x\n", "interpolation", 1, 4, "close it"),
        ("a: 0x_\n", "value", 1, 4, "quotes"),
        ("a: !!set {b}\n", "set", 1, 10, "plain values"),
        ("~: 1\n", "non-string-key", 1, 1, "write a name"),
        ("a: &x [*x]\n", "recursive-alias", 1, 7, "write it out"),
        ("- 1\n- 2\n", "not-a-mapping", 1, 1, "section:"),
        ("12\n", "not-a-mapping", 1, 1, "section:"),
        ("a: \x07\n", "encoding", 1, 4, "U+0007"),
        ("a: \x00\n", "encoding", 1, 4, "NUL"),
        ("a: \ud800\n", "encoding", 1, 4, "U+D800"),
    ],
)
def test_fatal_problems_say_where_and_how_to_mend(text: str, kind: str, line: int, column: int, said: str) -> None:
    problem = only(text)
    assert (problem.kind, problem.span.line, problem.span.column, problem.fatal) == (kind, line, column, True)
    assert said in problem.message
    assert "\n" not in problem.message
    assert not parse(text).readable


def test_a_flood_of_problems_is_cut() -> None:
    document = parse("1: 0\n" * 500 + "a: =\n" * 500)
    assert len(document.problems) == 100
    assert not document.readable


def test_all_duplicate_keys_are_reported() -> None:
    document = parse("a: 1\na: 2\nb: {c: 1, c: 2}\na: 3\n")
    assert [problem.span.line for problem in document.problems] == [2, 3, 4]
    assert document.root is not None  # the other rules can still work


@pytest.mark.parametrize(("text", "said"), [("1: a\n", "number"), ("on: a\n", "boolean true"), ("1.5: a\n", "number")])
def test_keys_that_are_no_names_are_a_note(text: str, said: str) -> None:
    problem = only(text)
    assert (problem.kind, problem.fatal) == ("non-string-key", False)
    assert said in problem.message
    assert parse(text).readable


def test_a_word_at_the_top_is_read_as_a_key() -> None:
    """OmegaConf does so; Megatron-Bridge then ignores the key."""
    document = parse("word\n")
    assert at(document, "word").value is None
    assert [(problem.kind, problem.fatal) for problem in document.problems] == [("not-a-mapping", False)]


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("a: é\n".encode("latin-1"), "0xE9"),
        ("a: 1\n".encode("utf-16"), "UTF-16"),
        ("a: 1\n".encode("utf-32"), "UTF-32"),
        (b"\xff\xfea", "UTF-16"),
        ("a: 1\n".encode("utf-16-le"), "UTF-16"),
        (b"\x93NUMPY\x01\x00", "UTF-8"),
    ],
)
def test_other_encodings_are_named(data: bytes, said: str) -> None:
    problem = only(data)
    assert (problem.kind, problem.fatal) == ("encoding", True)
    assert said in problem.message


def test_the_place_of_a_bad_byte() -> None:
    span = only(b"a: 1\nb: \xe9x\n").span
    assert (span.line, span.column) == (2, 4)


def test_a_byte_order_mark_is_kept_aside() -> None:
    document = parse(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert document.bom
    assert document.newline == "\r\n"
    assert at(document, "a").key == Span(1, 1, 1, 2, 0, 1)
    assert at(document, "b").value == 2
    assert document.encode(document.text) == b"\xef\xbb\xbfa: 1\r\nb: 2\r\n"


@examples(100)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.text(max_size=40).map(str.encode),
        st.text(max_size=40).map(lambda text: text.encode("utf-16", "surrogatepass")),
        st.binary(max_size=20).map(lambda data: b"\xff\xfe" + data),
        st.text(max_size=40).map(lambda text: b"\xef\xbb\xbf" + text.encode()),
    )
)
def test_bytes_come_back(data: bytes) -> None:
    document = parse(data)
    assert document.encode(document.text) == data


# ---------------------------------------------------------------- comments


def test_comment_lines() -> None:
    text = "# one\na: 1 # not this\n  # two  \n#three\nb: 2\r\n# four\r\n"
    assert list(parse(text).comments()) == [(1, "# one"), (3, "# two"), (4, "#three"), (6, "# four")]


def test_a_hash_inside_a_string_is_no_comment() -> None:
    text = "a: |\n  # no\n  x\n# yes\nb: 'x\n  # no\n  y'\n# yes\n"
    assert list(parse(text).comments()) == [(4, "# yes"), (8, "# yes")]


def test_comments_of_an_unreadable_file() -> None:
    assert list(parse("# mbpack: bridge=0.6\na: b: c\n").comments()) == [(1, "# mbpack: bridge=0.6")]


def test_no_comments() -> None:
    assert list(parse("a: 1\n").comments()) == []


# ---------------------------------------------------------------- without libyaml


@examples(20)
@given(st.one_of(texts(), damaged()))
def test_the_python_parser_gives_the_same(text: str) -> None:
    with_libyaml = parse(text)
    with mock.patch.object(composer, "CParser", None):
        without = parse(text)
    assert repr(with_libyaml.root) == repr(without.root)
    assert with_libyaml.problems == without.problems
    if with_libyaml.root is not None and without.root is not None:
        places = [[(item.span, item.key) for _, item in walk(root)] for root in (with_libyaml.root, without.root)]
        assert places[0] == places[1]
