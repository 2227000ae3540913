"""Layouts of pipeline stages: repetitions as upstream writes them out, and where MTP layers may stand."""

from __future__ import annotations

import pytest

from mbpack.facts.stage_layout import DECODER, EMBEDDING, LONGEST, LOSS, MTP, TooLong, even, order_fault, parse, unrolled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t*3", "ttt"),
        ("E,t*2,|tL", "Ett|tL"),
        ("xy(ab|cd|ef)*2,pq", "xyab|cd|efab|cd|efpq"),
        ("ab,(cd|)*2", "abcd|cd|"),
        ("(|ab)*2,cd", "|ab|abcd"),
        ("|*3", "|||"),
        ("(t*2|)*2", "tt|tt|"),
        ("((t)*2|)*3", "(t(t|)))"),
        ("t*2*4", "tt*4"),
        ("t*0", ""),
        ("(t|)*12", "t|" * 12),
        ("", ""),
        ("*2", "*2"),
        ("(t|)", "(t|)"),
    ],
)
def test_repetitions(text: str, expected: str) -> None:
    assert unrolled(text) == expected


def test_what_is_too_long_is_not_written_out() -> None:
    assert len(unrolled(f"t*{LONGEST}")) == LONGEST
    with pytest.raises(TooLong):
        unrolled("t*1000000")
    with pytest.raises(TooLong):
        unrolled(f"t*{LONGEST}" * 3)
    with pytest.raises(TooLong):
        unrolled("(t|)*999999")


def test_letters_stand_for_layers() -> None:
    assert parse("Et|m|L") == [[EMBEDDING, DECODER], [MTP], [LOSS]]
    assert parse("") == [[]]
    with pytest.raises(KeyError, match="x"):
        parse("Ex")


@pytest.mark.parametrize(
    ("stages", "layers", "mtp", "expected"),
    [
        (1, 4, 0, "Et*4L"),
        (2, 4, 0, "Et*2|t*2L"),
        (4, 31, 1, "Et*8|t*8|t*8|t*7mL"),
        (3, 2, 2, "Et|t|mmL"),
        (4, 4, 0, "Et|t|t|tL"),
    ],
)
def test_an_even_layout(stages: int, layers: int, mtp: int, expected: str) -> None:
    text = even(stages, layers, mtp)
    assert text == expected
    parsed = parse(text)
    flat = [layer for stage in parsed for layer in stage]
    assert (len(parsed), flat.count(DECODER), flat.count(MTP)) == (stages, layers, mtp)
    assert order_fault(parsed, stages) is None


@pytest.mark.parametrize(
    ("text", "pp", "words"),
    [
        ("Et|t|t|tL", 4, None),
        ("Et|t|t|tmL", 4, None),
        ("Et|t|tm|L", 4, None),
        ("Et|tm|t|L", 4, "decoder layers"),
        ("Et|t|mtL", 3, "decoder layers"),
        ("Et|t|m|L", 2, None),
        ("Et|tm||L", 2, "not the last"),
        ("Et|t|m|mL", 4, "more than one"),
        ("Et|t||mmL", 4, None),
        ("Et|t||mmL", 2, None),
        ("Et|m|m|L", 2, "not the last"),
    ],
)
def test_where_mtp_layers_may_stand(text: str, pp: int, words: str | None) -> None:
    fault = order_fault(parse(text), pp)
    assert fault is None if words is None else words in (fault or "")
