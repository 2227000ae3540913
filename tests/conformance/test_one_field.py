"""Rows with one changed field: each change once before any comes twice, and rows on disk are put together again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbpack.config.overrides import Override, parse_overrides

from .arguments import argument_rows
from .one_field import LEFT_OUT, one_field_overrides, one_field_rows, recorded
from .record import keep_fields
from .rows import Row, write

MODEL = {"_target_": "megatron.bridge.models.gpt_provider.GPTModelProvider", "num_layers": 2}
BASE: Row = {
    "id": "b",
    "release": "0.6",
    "gpus": 8,
    "config": {"model": MODEL, "mixed_precision": "bf16_mixed"},
    "expect": "accepted",
}


class Every(dict[str, Any]):
    """A list of recipes that has every name."""

    def get(self, name: str, default: Any = None) -> Any:
        return {"model_class": "GPTModelProvider", "dataset_class": "GPTSFTDatasetConfig", "peft": None}


def test_no_change_comes_twice_before_all_have_come_once() -> None:
    rows = list(one_field_rows("0.6", 3000, seed=1))
    on_model = [tuple(row["changed"]) for row in rows if row["changed"][0].startswith(("model.", "train."))]
    assert len(on_model) > 1000
    assert len(set(on_model)) == len(on_model)
    assert [row["changed"] for row in one_field_rows("0.6", 20, seed=1)] == [row["changed"] for row in rows[:20]]
    assert not [row for row in rows if row["changed"][0].endswith(LEFT_OUT)]


def test_a_row_is_its_base_with_one_change() -> None:
    row = next(iter(one_field_rows("0.6", 1, seed=3)))
    *sections, name = row["changed"][0].split(".")
    holder: Any = row["config"]
    for section in sections:
        holder = holder[section]
    assert repr(holder[name]) == row["changed"][1]


def test_a_file_on_a_recipe_has_one_change() -> None:
    row = next(iter(one_field_overrides("0.6", Every(), 1, seed=1)))
    assert {"recipe", "yaml", "launcher", "gpus", "changed"} <= set(row)


def test_arguments_on_recorded_files() -> None:
    rows = list(argument_rows("0.6", Every(), 200, seed=1))
    texts = [text for row in rows for text in row["overrides"]]
    assert {len(row["overrides"]) for row in rows} == {1, 2, 3}
    assert {text[:2].rstrip("abcdefghijklmnopqrstuvwxyz") for text in texts} >= {"", "+", "++", "~"}
    assert any(text.startswith("~") and "=" in text for text in texts)
    assert sum(isinstance(parsed, Override) for parsed in parse_overrides(texts)) == len(texts)
    assert [row["overrides"] for row in argument_rows("0.6", Every(), 20, seed=1)] == [row["overrides"] for row in rows[:20]]


def test_recorded_rows_are_put_together_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "verdicts" / "0.6.jsonl.gz", [BASE])
    made = {"id": "f", "release": "0.6", "base": "b", "gpus": 8, "changed": ["model.num_layers", "0"], "expect": "rejected"}
    error = {
        "type": "ZeroDivisionError",
        "function": "scaled_init_method_normal",
        "message": "float division by zero",
        "where": "",
        "caller": "scaled_init_method_normal",
    }
    row = made | {
        "config": {"model": MODEL | {"num_layers": 0}, "mixed_precision": "bf16_mixed"},
        "check": None,
        "errors": [error],
    }
    unknown = row | {"id": "u", "errors": [error | {"type": "OSError"}]}
    keep_fields(tmp_path / "fields" / "0.6.jsonl.gz", [row, unknown])
    found = recorded(tmp_path / "fields" / "0.6.jsonl.gz")
    assert found == [{key: row[key] for key in row if key != "errors"} | {"check": "topo/layers-positive"}]
    assert "1 left out" in capsys.readouterr().out
