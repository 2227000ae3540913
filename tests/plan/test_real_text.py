"""Real chats (chitchat-dataset, Mistral's tekken vocabulary), counted by tests/conformance/plan_real_text.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbpack.plan.candidates import Setup, evaluate
from mbpack.plan.histogram import Histogram

RECORD = Path(__file__).parents[1] / "data" / "lengths" / "chitchat_tekken.json"
CHATS = Histogram.of_json(json.loads(RECORD.read_text()))


def test_what_the_chats_are_like() -> None:
    assert (CHATS.rows, CHATS.longest, CHATS.percentile(50)) == (7168, 28_604, 71)
    assert CHATS.mean == pytest.approx(509, abs=0.5)
    assert CHATS.percentile(99) == pytest.approx(5285, abs=5)


@pytest.mark.parametrize(("pack", "rows", "share"), [(2048, 400, 45), (4096, None, 24), (8192, None, 11)])
def test_tokens_dropped_without_a_word(pack: int, rows: int | None, share: int) -> None:
    """0.6, multiple 1: rows over the cap vanish while packing."""
    one = evaluate(CHATS, (pack,), Setup(schema="chat"))[0]
    assert rows is None or one.dropped.rows == rows
    assert round(100 * one.dropped.tokens / one.tokens) == share
    assert one.truncated.rows == 0


def test_a_multiple_truncates_them_instead() -> None:
    one = evaluate(CHATS, (2048,), Setup(schema="chat", cp=2))[0]
    assert one.dropped.rows == 0
    assert one.truncated.rows == 400
    assert 0 < 100 * one.truncated.tokens / one.tokens < 45
