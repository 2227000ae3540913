"""Programs that would take a reader for ever: what it follows is bounded, and what it says still holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.config.python import read_program
from mbpack.config.python.machine import MAX_STEPS
from mbpack.config.python.program import follow
from tests.config.python.programs import HEAD

NESTED = """
cfg = first_config()
k = i = j = 0
while k < args.size:
    other = build(k)
    while i < args.size:
        other = made(i)
        while j < args.size:
            other = made(j)
            other.model.seq_length = k
            j += 1
        cfg.train.train_iters = i
        i += 1
    k += 1
finetune(cfg, forward_step)
"""
RECURSIVE = """
def walk(node):
    if isinstance(node, dict):
        for name, value in node.items():
            found = walk(value)
            if found:
                return walk(found)
    if isinstance(node, list):
        for value in node:
            found = walk(value) or walk(node)
            if found:
                return walk(found)
    return None


walk(mystery(args.name))
cfg = first_config()
cfg.model.seq_length = 5
finetune(cfg, forward_step)
"""


@pytest.mark.parametrize("body", [NESTED, RECURSIVE])
def test_loops_and_calls_that_nobody_can_count_settle(body: str) -> None:
    program = follow(HEAD + body)
    assert sum(world.machine.steps for world in program.worlds) < MAX_STEPS / 4
    assert list(program.certain.shown())


def test_a_module_of_the_project_that_is_too_long_is_somebody_elses(tmp_path: Path) -> None:
    busy = "".join(f"x{number} = {number} * 2 + {number}\n" for number in range(4000))
    (tmp_path / "busy.py").write_text(busy + "def tweak(cfg):\n    cfg.model.seq_length = 7\n")
    text = HEAD + "from busy import tweak\ncfg = first_config()\ncfg.model.seq_length = 5\ncfg.train.train_iters = 9\n"
    end = "finetune(cfg, forward_step)\n"
    (made,), notes = read_program(text + end, str(tmp_path / "train.py"), "0.6", lambda name: None)
    (document,) = made.variants[0].documents
    assert document.root.plain["train"]["train_iters"] == 9
    assert not notes
    (made,), notes = read_program(text + "tweak(cfg)\n" + end, str(tmp_path / "train.py"), "0.6", lambda name: None)
    assert () in made.variants[0].documents[0].opaque
    assert list(notes) == ["tweak()"]
