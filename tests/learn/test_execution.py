"""Functions of a made-up package become rows of conditions and derivations."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from mbpack.checks.render import block_text
from mbpack.facts.checks import Block
from mbpack.learn.sources import Sources
from mbpack.learn.tables import Builder, stored_block

HEAD = """
    from dataclasses import dataclass, fields
    import math
    from enum import Enum

    class Mode(str, Enum):
        one = "one"
        two = "two"

    @dataclass
    class Part:
        size: int = 1

        def finalize(self):
            if self.size <= 0:
                raise ValueError("size")

    @dataclass
    class ConfigContainer:
        part: Part
        model: object
        a: int = 1
        b: int | None = None
        names: list | None = None
"""


def rows(tmp_path: Path, body: str) -> list[str]:
    """The lines that a start-up amounts to."""
    folder = tmp_path / "megatron" / "bridge" / "training"
    folder.mkdir(parents=True)
    start = "\n    def runtime_config_update(cfg):\n" + "".join(f"        {line}\n" for line in dedent(body).strip().splitlines())
    (folder / "config.py").write_text(dedent(HEAD + start))
    table = Builder(Sources(tmp_path), {"transformer-engine": (2, 17), "torch": (2, 9)}).build()
    encoded = stored_block(table.blocks[table.start])
    lines = block_text(table.start, msgspec.msgpack.decode(encoded, type=Block))
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert cfg.a % 2 == 0", ["refuse a | (a % 2) != 0"]),
        ("if cfg.b is None:\n    cfg.b = 4 * cfg.a", ["b := 4 * a | b is null"]),
        ("if cfg.a > 1 and not cfg.b:\n    raise ValueError('words')", ["refuse a+b | (a > 1) and (not b)"]),
        ("n = cfg.a\nassert n < 3", ["refuse a | a >= 3"]),
        ("if not cfg.a:\n    return\nassert cfg.b", ["refuse b if a | a and not b"]),
        ("for part in (1, 2):\n    assert cfg.a != part", ["refuse a | a == 1", "refuse a#2 | a == 2"]),
        ("assert all(name in ('x', 'y') for name in cfg.names)", ["refuse names=x=y | not all([@1 in ('x', 'y') for each @1 of names])"]),
        ("for name in cfg.names:\n    assert name", ["for each @1 of names", "  refuse names | not @1"]),
        ("assert cfg.b == Mode.two", ["refuse b=two | b != 'two'"]),
        ("cfg.part.finalize()", ["refuse part.size | part.size <= 0"]),
        ("cfg.model.finalize()", ["then model.finalize"]),
        ("bad = []\nif cfg.a:\n    bad.append('some words')\nassert not bad", ["refuse a | [true (if a)]"]),
        ("assert math.lcm(2, cfg.a) == 4", ["refuse a | lcm(2, a) != 4"]),
        ("try:\n    cfg.b = Mode(cfg.b)\nexcept ValueError:\n    raise ValueError('no')",
         ["refuse b=one=two | ({'one': 'one', 'two': 'two'}[b]) cannot be worked out", "b := {'one': 'one', 'two': 'two'}[b] | not (({'one': 'one', 'two': 'two'}[b]) cannot be worked out)"]),
        ("for field in fields(Part):\n    setattr(cfg.part, field.name, 3)", ["part.size := 3"]),
        ("old = cfg.a\ncfg.a = 5\nassert old != 1", ["$0 = a", "a := 5", "refuse a | $0 == 1"]),        
    ],
)  # fmt: skip
def test_a_start_up_in_rows(tmp_path: Path, body: str, expected: list[str]) -> None:
    assert rows(tmp_path, body) == expected


def test_what_has_no_words_stays_open(tmp_path: Path) -> None:
    lines = rows(tmp_path, "import foreign\nassert foreign.allows(cfg.a)")
    assert lines == ["refuse  | not (<beyond: a call of foreign.allows>)"] or "beyond" in lines[0]


def test_no_words_of_upstream_are_kept(tmp_path: Path) -> None:
    lines = rows(tmp_path, "if cfg.a:\n    raise ValueError(f'a sentence about {cfg.a}')")
    assert "sentence" not in "\n".join(lines)
