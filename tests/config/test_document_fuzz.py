"""Any bytes in, a document out, in bounded time and memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.config.document import MAX_BYTES, Document, parse, walk
from mbpack.config.recognise import looks_like
from tests.config.config_oracle import examples
from tests.config.config_texts import WORDS, damaged, texts

_TOKENS = (
    *(
        ": ",
        ":\n  ",
        "- ",
        "? ",
        "\n",
        "\n  ",
        " ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "#",
        "&a ",
        "*a",
        "!",
        "!!",
        "|",
        ">",
        "'",
        '"',
    ),
    *(
        "%",
        "@",
        "`",
        "---\n",
        "...\n",
        "<<: ",
        "\\",
        "\t",
        "\r",
        "\x00",
        "\x85",
        "\u2028",
        "\ufeff",
        "${",
        "a",
        "key",
        "\U0001f600",
    ),
)
_signs = st.lists(st.sampled_from((*_TOKENS, *WORDS)), max_size=25).map("".join)


def read_everything(data: bytes | str) -> Document:
    document = parse(data)
    for problem in document.problems:
        assert problem.message
        assert "\n" not in problem.message
        assert problem.span.line >= 1
        assert problem.span.column >= 1
        assert 0 <= problem.span.start <= problem.span.end <= len(document.text)
    assert document.root is not None or any(problem.fatal for problem in document.problems)
    list(document.comments())
    if document.root is not None:
        for _, item in walk(document.root):
            assert item.span.line >= 1
            repr(item)
    looks_like(document, {"model", "train"})
    return document


@examples(150)
@given(st.one_of(st.binary(max_size=80), _signs.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_any_bytes(data: bytes) -> None:
    read_everything(data)


@examples(60)
@given(st.one_of(st.text(max_size=60), _signs, texts(), damaged()))
def test_any_text(text: str) -> None:
    read_everything(text)


@examples(30)
@given(texts(), st.integers(0, 3000))
def test_any_document_cut_anywhere(text: str, end: int) -> None:
    read_everything(text.encode()[:end])


def _merge_chain(count: int) -> str:
    """Each mapping merges all before it: count * count / 2 keys."""
    lines = ["m0: &m0 {k0: 0}"]
    lines += [f"m{n}: &m{n} {{<<: *m{n - 1}, k{n}: 0}}" for n in range(1, count)]
    return "\n".join(lines)


def _deep_merge_chain(count: int) -> str:
    """The chain stands deep inside, so that the shallow mapping after it unfolds it at once."""
    chain = _merge_chain(count).replace("\n", "\n    ")
    return f"a:\n  b:\n    {chain}\nc: {{<<: *m{count - 1}}}\n"


def _alias_chain(count: int) -> str:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, count)]
    return "\n".join(lines)


def _alias_bomb(width: int, depth: int) -> str:
    lines = [f"a0: &a0 [{', '.join('x' * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, depth)]
    return "\n".join(lines)


def _merge_bomb(depth: int) -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}], y{n}: 1}}" for n in range(1, depth)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "{" * 50_000,
        "{a: " * 20_000,
        "- " * 50_000,
        "? " * 50_000,
        "-\t" * 50_000,
        "a: 1\n" + "- ? : " * 20_000,
        "a: 1\r" + "- " * 50_000,
        "a: 1\u2028" + "- " * 50_000,
        "\r\n".join(" " * depth + "a:" for depth in range(1500)),
        "a: !x " * 5_000,
        "\n".join(" " * depth + "a:" for depth in range(1500)),
        "\n".join(" " * depth + "-" for depth in range(1500)),
        "a: " + "[" * 400 + "]" * 400,
        "a: [" + "{}, " * 20_000 + "]",
        "a: " + "x" * 1_000_000,
        "a: '" + "x" * 1_000_000,
        "x" * 2_000 + ": 1",
        "a: " + "${" * 5_000,
        "a: ${" + "x" * 100_000,
        "\n".join(f"k{n}: ${{{n}!" for n in range(3_000)),
        "a: 1" + ":0" * 200_000,
        "a: " + "9" * 200_000,
        "a: 0x" + "f" * 200_000,
        "a: 1" + ":0" * 200_000 + ".5",
        "#\n" * 100_000,
        "\n" * 200_000,
        "a: |\n" + "  x\n" * 50_000,
        "%" * 100_000,
        "\t" * 100_000,
        "&a " * 50_000,
        "a: &a " + "!b " * 20_000,
        "\x00" * 100_000,
        "\ufeff" * 50_000,
        "a: [*" + "b, *" * 20_000,
        _merge_chain(1500),
        _deep_merge_chain(300),
        _alias_chain(2000),
        _alias_bomb(30, 30),
        _merge_bomb(40),
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_hostile_texts_are_answered(text: str) -> None:
    read_everything(text)


def test_huge_files_are_not_read() -> None:
    document = parse(b"a: 1\n" * (MAX_BYTES // 5 + 1))
    assert [problem.kind for problem in document.problems] == ["too-large"]
