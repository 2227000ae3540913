"""Old keys of dataset_kwargs and the preprocessing that does the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.facts.preprocessing import CHAT_CLASS, COMPLETION_CLASS, SEMANTIC_KWARGS, kwargs_of, preprocessing_of
from mbpack.facts.schema import schema

CHAT = {"chat": True, "use_hf_tokenizer_chat_template": True}


@pytest.mark.parametrize(
    ("kwargs", "hub", "class_name", "fields"),
    [
        (CHAT, False, CHAT_CLASS, {"loss_mode": "assistant"}),
        ({**CHAT, "chat_loss_mode": "last_turn"}, False, CHAT_CLASS, {"loss_mode": "last_turn"}),
        ({"chat_loss_mode": "full"}, True, CHAT_CLASS, {"loss_mode": "full"}),
        (
            {"add_bos": True, "pad_to_max_length": True},
            False,
            COMPLETION_CLASS,
            {
                "prompt_column": "input",
                "completion_column": "output",
                "separator": " ",
                "add_bos": True,
                "loss_mode": "completion",
            },
        ),
        (
            {"prompt_template": "{q} {a}", "label_key": "a", "truncation_field": "q", "answer_only_loss": False},
            False,
            COMPLETION_CLASS,
            {"prompt_column": "q", "completion_column": "a", "separator": " ", "loss_mode": "full"},
        ),
    ],
)
def test_what_old_keys_mean(kwargs: dict[str, Any], hub: bool, class_name: str, fields: dict[str, Any]) -> None:
    found = preprocessing_of(kwargs, hub)
    assert not isinstance(found, str)
    assert (found.class_name, dict(found.fields)) == (class_name, fields)


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"chat": True}, "special tokens"),
        ({**CHAT, "answer_only_loss": False}, "no meaning for chats"),
        ({"prompt_template": "Q: {input} A: {output}"}, "compare the tokens"),
        ({"label_key": "answer"}, "another column"),
        ({"prompt_completion_config": None}, "no file gives"),
    ],
)
def test_what_has_no_equal_says_why(kwargs: dict[str, Any], reason: str) -> None:
    found = preprocessing_of(kwargs, False)
    assert isinstance(found, str)
    assert reason in found


NAMES = st.sampled_from(["input", "output", "question", "answer"])


@given(NAMES, NAMES, st.fixed_dictionaries({}, optional={name: st.booleans() for name in ("add_bos", "add_sep", "add_eos")}))
def test_there_and_back(prompt: str, completion: str, switches: dict[str, bool]) -> None:
    kwargs = {
        "prompt_template": f"{{{prompt}}} {{{completion}}}",
        "label_key": completion,
        "truncation_field": prompt,
        **switches,
    }
    there = preprocessing_of(kwargs, False)
    assert not isinstance(there, str)
    back = kwargs_of(there.class_name, there.fields)
    assert not isinstance(back, str)
    assert set(back) <= SEMANTIC_KWARGS
    again = preprocessing_of(back, False)
    assert not isinstance(again, str)
    usual = {"add_bos": False, "add_sep": False, "add_eos": True}  # a default may be left out on the way
    assert {**usual, **again.fields} == {**usual, **there.fields}


@pytest.mark.parametrize("release", ["0.6", "0.7"])
def test_fields_are_those_of_the_classes(release: str) -> None:
    for kwargs in (CHAT, {"add_bos": True, "add_sep": True, "add_eos": False, "truncation_method": "left"}):
        found = preprocessing_of(kwargs, False)
        assert not isinstance(found, str)
        assert set(found.fields) <= set(schema(release).fields(found.class_name) or {})


@pytest.mark.parametrize(
    "fields", [{"separator": ""}, {"separator": " ", "prompt_template": "{input}"}, {"separator": " ", "strip_whitespace": False}]
)
def test_prompts_put_together_otherwise_have_no_old_keys(fields: dict[str, Any]) -> None:
    assert isinstance(kwargs_of(COMPLETION_CLASS, fields), str)


@pytest.mark.parametrize(
    ("fields", "old"),
    [
        ({}, "put together"),
        (
            {"separator": " "},
            {"prompt_template": "{prompt} {completion}", "label_key": "completion", "truncation_field": "prompt"},
        ),
        ({"separator": " ", "strip_whitespace": False}, "put together"),
        ({"separator": " ", "prompt_template": "{prompt}{completion}"}, "put together"),
        ({"separator": " ", "prompt_column": "input", "completion_column": "output"}, {}),
        (
            {"separator": " ", "prompt_column": "input", "completion_column": "output", "loss_mode": "full"},
            {"answer_only_loss": False},
        ),
    ],
)
def test_the_way_back_to_old_keys(fields: dict[str, Any], old: dict[str, Any] | str) -> None:
    found = kwargs_of(COMPLETION_CLASS, fields)
    assert found == old if isinstance(old, dict) else old in found


def test_the_way_back_of_chats() -> None:
    assert kwargs_of(CHAT_CLASS, {}) == CHAT
    assert "no key before 0.6" in kwargs_of(CHAT_CLASS, {"loss_mode": "last_turn"})
    assert "no keys before 0.6" in kwargs_of("SomeOtherPreprocessing", {})
