"""The first rows of the training file, read from the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.config.evidence import Row
from mbpack.engine.doctor import Request, judge
from mbpack.inspect import collect
from mbpack.inspect.first_rows import MOST_BYTES, MOST_ROWS, first_rows
from tests.conftest import slugs

CHAT = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
OLD_CHAT = {"conversations": [{"from": "User", "value": "a"}, {"from": "Assistant", "value": "b"}], "system": None}


def written(path: Path, *rows: Any) -> str:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def test_columns_and_speakers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", CHAT, "", OLD_CHAT, {"input": "x", "output": "y"}, "[1]", "{", {"messages": 3})
    assert first_rows(path) == (
        Row(1, ("messages",), ("user", "assistant")),
        Row(3, ("conversations",), ("User", "Assistant")),
        Row(4, ("input", "output")),
        Row(5, problem="no JSON object"),
        Row(6, problem="no JSON"),
        Row(7, ("messages",)),
    )
    assert [row.chat for row in first_rows(path)[:3]] == ["messages", "conversations", ""]


def test_only_the_first_are_read_and_none_that_is_cut(tmp_path: Path) -> None:
    assert len(first_rows(written(tmp_path / "a.jsonl", *[CHAT] * 100))) == MOST_ROWS
    assert first_rows(written(tmp_path / "b.jsonl", {"input": "x" * MOST_BYTES})) == ()
    assert first_rows(written(tmp_path / "c.jsonl", {"a": 1}, {"input": "x" * MOST_BYTES})) == (Row(1, ("a",)),)
    assert first_rows(str(tmp_path / "none.jsonl")) == ()
    assert first_rows(str(tmp_path)) == ()
    (tmp_path / "packs.parquet").write_bytes(b"PAR1 and more")
    assert first_rows(str(tmp_path / "packs.parquet")) == ()


@pytest.mark.parametrize(
    ("rows", "bridge", "found"),
    [
        ([CHAT], "0.6", ["data/row-schema"]),
        ([{"input": "x", "output": "y"}], "0.6", []),
        ([{"prompt": "x", "completion": "y"}], "0.6", []),
        ([{"instruction": "x", "response": "y"}], "0.6", ["data/row-schema"]),
        ([{"input": "x", "output": "y"}, "no json"], "0.6", ["data/broken-rows"]),
        ([], "0.6", []),
    ],
)
def test_the_doctor_looks_at_them(tmp_path: Path, rows: list[Any], bridge: str, found: list[str]) -> None:
    (tmp_path / "data").mkdir()
    written(tmp_path / "data" / "training.jsonl", *rows)
    text = f"dataset: {{dataset_root: {tmp_path / 'data'}, hf_dataset: null, hf_validation_proportion: null}}\n"
    result = judge(Request([parse(text)], Given(bridge, "llama3_8b_sft_config", 8, "script"), look=lambda run: collect(run)))
    ours = ("data/row-schema", "data/broken-rows", "data/root-is-file")
    assert [slug for slug in slugs(result) if slug in ours] == found


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    path = written(tmp_path / "training.jsonl", {"input": "x", "output": "y"})
    text = f"dataset: {{dataset_root: {path}, hf_dataset: null, hf_validation_proportion: null}}\n"
    result = judge(Request([parse(text)], Given("0.6", "llama3_8b_sft_config", 8, "script"), look=lambda run: collect(run)))
    (finding,) = [finding for finding in result.findings if finding.rule.slug == "data/root-is-file"]
    assert finding.fix is not None
    assert finding.fix.edits[0].value == str(tmp_path)
