"""The idioms of the public programs: what is read of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbpack.config.document import Interpolation, Item
from mbpack.config.python import Made, PythonError, Variant, read_program
from tests.conftest import load_cases

IDIOMS = load_cases(Path(__file__).parent / "idioms.yaml")


def read(source: str, path: str | None = None) -> list[Made]:
    """The configurations of a program."""
    return read_program(source, path, "0.6", lambda name: None)[0]


def leaves(item: Item, path: str = "") -> dict[str, Any]:
    """The values of a document by their dotted path; "?" for what is not known."""
    found: dict[str, Any] = {}
    for name, child in item.value.items():
        dotted = f"{path}.{name}" if path else name
        if isinstance(child.value, dict):
            found.update(leaves(child, dotted))
        else:
            found[dotted] = "?" if isinstance(child.value, Interpolation) else child.plain
    return found


def settings(variant: Variant) -> dict[str, Any]:
    """The values of all layers."""
    found: dict[str, Any] = {}
    for document in variant.documents:
        assert document.root is not None
        found.update(leaves(document.root))
    return found


@pytest.mark.parametrize("case", IDIOMS, ids=lambda case: case["name"])
def test_idiom(case: dict[str, Any]) -> None:
    made = read(case["program"])[-1]
    certain, usual = made.variants[:2]
    assert settings(usual) == case["settings"]
    assert settings(certain) == case.get("certain", case["settings"])
    if "recipe" in case:
        assert (made.base or "") == case["recipe"]
    if "step" in case:
        assert made.given.step == case["step"]
    for name in ("made", "opaque"):
        if name in case:
            found = {path for document in usual.documents for path in getattr(document, name)}
            assert {".".join(path) for path in found} == set(case[name])
    for path, place in case.get("at", {}).items():
        item: Item = usual.documents[0].root  # type: ignore[assignment]
        for part in path.split("."):
            item = item.value[part]
        assert [item.span.line, item.span.column, item.span.end_line, item.span.end_column] == place
        lines = case["program"].split("\n")
        assert lines[place[0] - 1][place[1] - 1 : place[3] - 1] == usual.documents[0].text[item.span.start : item.span.end]


def test_other_ways_of_a_condition() -> None:
    made = read(
        "import torch\n"
        "from megatron.bridge.recipes.llama import llama3_8b_sft_config\n"
        "cfg = llama3_8b_sft_config()\n"
        "if torch.cuda.is_available():\n"
        "    cfg.train.micro_batch_size = 2\n"
        "else:\n"
        "    cfg.train.micro_batch_size = 4\n"
    )[-1]
    ways = {variant.label: settings(variant)["train.micro_batch_size"] for variant in made.variants[2:]}
    assert ways == {
        "where `torch.cuda.is_available()` is true (line 4)": 2,
        "where `torch.cuda.is_available()` is false (line 4)": 4,
    }


def test_a_recipe_chosen_by_an_option() -> None:
    made = read(
        "import argparse\n"
        "from megatron.bridge.recipes.llama import llama3_8b_sft_config, llama3_8b_peft_config\n"
        "from megatron.bridge.training.finetune import finetune\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--lora', action='store_true')\n"
        "args = parser.parse_args()\n"
        "cfg = llama3_8b_peft_config() if args.lora else llama3_8b_sft_config()\n"
        "cfg.train.micro_batch_size = 1\n"
        "finetune(cfg)\n"
    )
    assert [(entry.base, entry.label) for entry in made] == [
        ("llama3_8b_sft_config", ""),
        ("llama3_8b_peft_config", "where `args.lora` is true (line 7)"),
    ]


def test_functions_of_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "__init__.py").write_text("from .base import *\n")
    (tmp_path / "recipes" / "base.py").write_text(
        "from megatron.bridge.recipes.llama import llama3_8b_sft_config\n"
        "SEQ = 8192\n"
        "def mine():\n"
        "    cfg = llama3_8b_sft_config()\n"
        "    cfg.model.seq_length = SEQ\n"
        "    return cfg\n"
    )
    source = "from recipes import mine\n\n\ncfg = mine()\ncfg.train.micro_batch_size = 1\n"
    made = read(source, str(tmp_path / "train.py"))[-1]
    assert made.base == "llama3_8b_sft_config"
    assert settings(made.variants[1]) == {"model.seq_length": 8192, "train.micro_batch_size": 1}
    root = made.variants[1].documents[0].root
    assert root is not None
    assert root.value["model"].value["seq_length"].span.line == 4  # where the call stands


@pytest.mark.parametrize("source", ["cfg = (", "x = 1\n  y = 2\n", "\0", "print 'old'"])
def test_no_python(source: str) -> None:
    with pytest.raises(PythonError) as error:
        read(source)
    assert "\n" not in str(error.value)
    assert error.value.line >= 1


def test_a_program_that_goes_on_for_ever_is_given_up() -> None:
    loops = "".join(f"{'    ' * depth}for i{depth} in range(60):\n" for depth in range(6))
    source = "from megatron.bridge.recipes.llama import llama3_8b_sft_config\ncfg = llama3_8b_sft_config()\n"
    made, notes = read_program(f"{source}{loops}{'    ' * 6}cfg.train.train_iters = i0\n", None, "0.6", lambda name: None)
    assert made == []
    assert "too long" in " ".join(notes)
