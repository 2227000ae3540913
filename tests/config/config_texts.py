"""Generated YAML texts: words of every shape, documents in every style, and damaged ones."""

from __future__ import annotations

import yaml
from hypothesis import strategies as st

# Words that YAML 1.1, or only OmegaConf, reads in a way of its own, and their neighbours that stay text.
WORDS = (
    *(
        "0",
        "1",
        "-1",
        "+1",
        "00",
        "017",
        "08",
        "0o17",
        "0b101",
        "0b",
        "0b_",
        "0x1F",
        "0x",
        "0x_",
        "-0x1f",
        "1_000",
        "1_",
    ),
    *("_1", "1__0", "12345678901234567890123", "1:30", "1:60", "190:20:30", "1:30.5", "-1:30", "0:0", "1.5", "-1.5"),
    *(
        ".5",
        "-.5",
        "+.5",
        "5.",
        "1.e5",
        "1e5",
        "1E5",
        "1e+5",
        "2e-5",
        "1.5e5",
        "1.5e-5",
        ".5e5",
        ".5e-5",
        "1_0e5",
        "1__0e5",
    ),
    *("1_0.5", "1e999", "1e", "e5", ".e5", "-0", "-0.0", ".", "..", "-", "+", "--", ".inf", "-.INF", "+.Inf", ".nan"),
    *(
        ".NaN",
        "-.nan",
        "inf",
        "nan",
        "true",
        "True",
        "TRUE",
        "tRUE",
        "false",
        "yes",
        "Yes",
        "no",
        "NO",
        "on",
        "On",
        "off",
    ),
    *(
        "y",
        "n",
        "Y",
        "null",
        "Null",
        "NULL",
        "nULL",
        "~",
        "",
        "2020-01-01",
        "2020-01-01 10:00:00",
        "2020-01-01T10:00:00Z",
    ),
    *(
        "1,000",
        "1 000",
        "١",
        "1²",
        "é",
        "日本",
        "foo",
        "foo bar",
        "a:b",
        "a#b",
        "a-b",
        "$x",
        "/a/b.c",
        "a=b",
        "=x",
        "<",
        "<<x",
    ),
    *(
        "???",
        "??",
        "${a}",
        "${a.b}",
        "x${a}y",
        "${oc.env:X,1}",
        "${a:b,c}",
        "\\${a}",
        "$${a}",
        "torch.bfloat16",
        "bf16",
    ),
)
#: Words that the loader refuses as values.
REFUSED_WORDS = (
    "=",
    "<<",
    "0b_",
    "0x_",
    "${",
    "${a",
    "${a b}",
    "${a:b",
    "@x",
    "%x",
    "`x",
    "*x",
    "!x y",
    "- x",
    "a: b",
    "'x",
    '"',
)

_WORD_CHARACTERS = "0123456789" * 3 + "+-._eExXbBoO:~nulNULtrueTRUEfalsyYnNofFinfINFa <="
_NUMBER_PIECES = (
    *("0", "1", "7", "8", "10", "59", "60", "190", "1_000", "00"),
    *(
        "_",
        "__",
        ".",
        ".",
        "e",
        "E",
        "e5",
        "e+5",
        "E-05",
        "e-",
        ":",
        ":30",
        ":5",
        "+",
        "-",
        "0x",
        "0b",
        "0o",
        "fF",
        "inf",
        "nan",
    ),
)
words = st.one_of(
    st.sampled_from(WORDS),
    st.text(_WORD_CHARACTERS, max_size=9),
    st.lists(st.sampled_from(_NUMBER_PIECES), max_size=6).map("".join),
    st.lists(st.sampled_from(_NUMBER_PIECES), max_size=6).map("".join),
    st.text(max_size=6),
)

_KEYS = (
    "a",
    "b",
    "c",
    "model",
    "train",
    "dataset",
    '"q"',
    "'s'",
    "two words",
    "1",
    "1.5",
    "true",
    "on",
    "0x1F",
    "é",
    "???",
    "=",
)
_FLOWS = (
    "[1, 2]",
    "{a: 1, b: 2}",
    "[[1], {x: y}]",
    "[]",
    "{}",
    "[a,\n      b]",
    "{a: [1, ~], 'b': \"c\"}",
    "{a: , b}",
    "{? a: 1}",
)
_BLOCKS = ("|\n      one\n       two\n", ">-\n      one\n\n      two\n", "|+\n      one\n\n", "|2-\n      one\n")
_QUOTED = (
    "'it''s'",
    '"a\\n\\t\\u0041"',
    "'1'",
    '"true"',
    "'???'",
    '"${a.b}"',
    "''",
    '""',
    "'a\n\n      b'",
    '"\\x24{a}"',
)
_TAGGED = (
    "!!str 1",
    "!!int '3'",
    "!!float 3",
    "!!bool yes",
    "!!null x",
    "!!binary aGk=",
    "! 12",
    "!!map {a: 1}",
    "!!seq [1]",
)
_ANCHORED = ("&v 1", "&v foo", "&v [1]", "*v", "*m")
_BAD = (
    *REFUSED_WORDS,
    "{a: 1, a: 2}",
    '"\\q"',
    "!!set {a}",
    "!!timestamp 2020-01-01",
    "!!int x",
    "!!bool x",
    "!foo 1",
    "[1",
)
_BAD_KEYS = ("~", "null", "[1]", "{a: 1}", "? a", "*v", "!!int x")


@st.composite
def texts(draw: st.DrawFn, bad: bool = True) -> str:
    """A YAML document written by hand, with anchors, merges, comments and (a few) mistakes."""
    return "".join(_mapping(draw, 0, 0, bad))


def _value(draw: st.DrawFn, indent: int, depth: int, bad: bool) -> list[str]:
    kind = draw(st.integers(0, 29))
    if depth < 3 and kind < 8:
        return ["\n", *_mapping(draw, indent + draw(st.sampled_from((1, 2, 4))), depth + 1, bad)]
    if depth < 3 and kind < 10:
        return [" &m\n", *_mapping(draw, indent + 2, depth + 1, bad)]
    if depth < 3 and kind < 14:
        return ["\n", *_sequence(draw, indent + draw(st.sampled_from((0, 2))), depth + 1, bad)]
    pools = (WORDS, WORDS, WORDS, WORDS, _FLOWS, _BLOCKS, _QUOTED, _QUOTED, _TAGGED, _ANCHORED)
    pool = _BAD if bad and draw(st.integers(0, 60)) == 0 else draw(st.sampled_from(pools))
    comment = draw(st.sampled_from(("", "", "", "", " # note", "   ")))
    written = draw(st.sampled_from(pool))
    return [" ", written, "" if written.endswith("\n") else comment + "\n"]


def _mapping(draw: st.DrawFn, indent: int, depth: int, bad: bool) -> list[str]:
    parts = []
    for number in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 9)) == 0:
            parts.append(draw(st.sampled_from(("# note\n", "\n", "      # note\n"))))
        kind = draw(st.integers(0, 24))
        if kind == 0:
            merged = draw(st.sampled_from(("*m", "*m", "{a: 1, bb: 2}", "[*m, {cc: 3}]", *(("3", "[1]") if bad else ()))))
            parts += [" " * indent, "<<: ", merged, "\n"]
            continue
        if bad and kind == 1:
            key = draw(st.sampled_from(_BAD_KEYS))
        elif kind < 8:
            key = draw(st.sampled_from(_KEYS))
        else:
            key = f"key{depth}{number}"
        parts += [" " * indent, key, ":", *_value(draw, indent, depth, bad)]
    return parts


def _sequence(draw: st.DrawFn, indent: int, depth: int, bad: bool) -> list[str]:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        parts += [" " * indent, "-", *_value(draw, indent, depth, bad)]
    return parts


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A document with one to three characters put in, left out or replaced."""
    characters = list(draw(texts(bad=False)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(characters)))
        sign = draw(st.sampled_from(" \n:-?[]{}#&*!|>'\"%@`,\\\t.$=<~ax1_é\r\ufeff\x85\u2028\x00\x07"))
        stop = at + draw(st.integers(0, 1))
        characters[at:stop] = [sign] if draw(st.booleans()) else []
    return "".join(characters)


_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(WORDS),
    st.binary(max_size=4),
)
_names = st.one_of(st.text(min_size=1, max_size=8), st.sampled_from(_KEYS), st.integers(), st.booleans())
data = st.dictionaries(
    _names,
    st.recursive(
        _leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=3)),
        max_leaves=10,
    ),
    max_size=5,
)


@st.composite
def dumped(draw: st.DrawFn) -> str:
    """Any data, dumped by PyYAML in one of its styles."""
    return str(
        yaml.dump(
            draw(data),
            Dumper=yaml.SafeDumper,
            default_flow_style=draw(st.sampled_from((True, False, None))),
            default_style=draw(st.sampled_from((None, None, None, "'", '"', "|", ">"))),
            indent=draw(st.sampled_from((None, 2, 4, 8))),
            width=draw(st.sampled_from((None, 5, 30, 1000))),
            allow_unicode=draw(st.booleans()),
            line_break=draw(st.sampled_from((None, "\n", "\r\n", "\r"))),
            explicit_start=draw(st.booleans()),
            sort_keys=False,
        )
    )
