"""Answers: what people may write for them, and the answers file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.config.document import parse
from mbpack.wizard import answers
from mbpack.wizard.answers import KINDS, AnswerError, coerce
from mbpack.wizard.yaml_text import Line, render, scalar


@pytest.mark.parametrize(
    ("name", "written", "taken"),
    [
        ("gpus", "16", 16),
        ("seq_length", "8k", 8192),
        ("seq_length", "128K", 131072),
        ("seq_length", "8_192", 8192),
        ("seq_length", "8,192", 8192),
        ("vpp", "none", None),
        ("vpp", 1, None),
        ("etp", 1, 1),
        ("etp", "none", None),
        ("sp", "yes", True),
        ("sp", "off", False),
        ("data", "jsonl-chat", "chat"),
        ("data", "prompt-completion", "jsonl"),
        ("data", "Energon WebDataset", "energon"),
        ("packing", "in-batch", "in_batch"),
        ("cuda_graphs", None, "none"),
        ("cuda_graphs", False, "none"),
        ("workload", "LoRA", "lora"),
        ("bridge", 0.6, "0.6"),
    ],
)
def test_spellings(name: str, written: object, taken: object) -> None:
    assert coerce(name, written) == taken


@pytest.mark.parametrize(
    ("name", "written", "says"),
    [
        ("gpus", "eight", "no whole number"),
        ("gpus", "0", "positive"),
        ("gpus", True, "no whole number"),
        ("gpus", "9" * 20, "too large"),
        ("packing", "offlin", "did you mean offline?"),
        ("sp", "maybe", "neither yes nor no"),
        ("recipe", "", "no usable text"),
        ("data_path", "a\nb", "no usable text"),
    ],
)
def test_unusable_answers_say_why(name: str, written: object, says: str) -> None:
    with pytest.raises(AnswerError, match=says):
        coerce(name, written)


def test_an_answers_file_reads_back_as_it_was_written() -> None:
    given_answers = {"bridge": "0.6", "cuda_graphs": "none", "sp": True, "vpp": None, "seq_length": 8192, "recipe": "x_config"}
    assert answers.read(answers.write(given_answers), "a.yaml") == given_answers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpuss: 8\n", r"a.yaml:1: `gpuss` is no question of mbpack init; did you mean gpus\?"),
        ("bridge: '0.6'\ngpus: many\n", "a.yaml:2: gpus: 'many' is no whole number"),
        ("gpus: [8]\n", "a.yaml:1: gpus takes one value"),
        ("- gpus\n", "a.yaml:1:"),
        ("gpus: 8\ngpus: 16\n", "a.yaml:2:"),
        ("gpus: {\n", "a.yaml:"),
    ],
)
def test_a_bad_answers_file_names_the_line(text: str, says: str) -> None:
    with pytest.raises(AnswerError, match=says):
        answers.read(text, "a.yaml")


def test_names_with_dashes_are_the_same_names() -> None:
    assert answers.read("seq-length: 4096\n", "a.yaml") == {"seq_length": 4096}


@given(st.binary(max_size=60))
def test_any_bytes_give_answers_or_one_line(data: bytes) -> None:
    text = data.decode("latin-1")
    said = ""
    try:
        answers.read(text, "a.yaml")
    except AnswerError as error:
        said = str(error).strip()
    assert "\n" not in said


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=30).filter(
    lambda text: "${" not in text and text.strip() not in ("", "???")
)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), TEXTS)


@given(st.one_of(VALUES, st.lists(VALUES, max_size=3)))
def test_scalars_read_back_unchanged(value: object) -> None:
    document = parse(f"a:\n  b: {scalar(value)}\n")
    assert document.root is not None
    assert document.root.plain == {"a": {"b": value}}


@given(TEXTS, TEXTS)
def test_comments_never_change_a_value(value: str, why: str) -> None:
    document = parse(render([Line("a.b", value, " ".join(why.split()) or "x"), Line("a.c", 1)]))
    assert document.root is not None
    assert document.root.plain == {"a": {"b": value, "c": 1}}


def test_every_question_has_a_kind_and_a_default() -> None:
    from mbpack.wizard.defaults import DEFAULTS
    from mbpack.wizard.questions import QUESTIONS

    assert set(DEFAULTS) == set(KINDS) - {"size"}  # a size only narrows the recipe down
    assert {question.key for question in QUESTIONS} <= set(KINDS)
