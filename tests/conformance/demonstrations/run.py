"""Demonstrations by name and what they declare, and how they are run: one process a release and kind."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..engine import source, trees

HERE = Path(__file__).resolve().parent
_NO_DEMONSTRATION = {"__init__", "run", "table", "upstream", "worker"}


class Declared(NamedTuple):
    """What a demonstration says of itself, read without importing it."""

    name: str
    title: str
    rules: tuple[str, ...]
    releases: tuple[str, ...]
    engine: bool


@cache
def declared() -> tuple[Declared, ...]:
    """Every demonstration of this folder."""
    return tuple(_read(path) for path in sorted(HERE.glob("*.py")) if path.stem not in _NO_DEMONSTRATION)


def _read(path: Path) -> Declared:
    tree = ast.parse(path.read_text())
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    }
    title = (ast.get_docstring(tree) or "").split("\n")[0]
    return Declared(path.stem, title, values["RULES"], values["RELEASES"], values.get("NEEDS") == "engine")


@cache
def outcomes(release: str) -> dict[str, dict[str, Any]]:
    """What the demonstrations that claim a release saw there, by name.

    Raises EnvironmentMissing when the release or its Transformer Engine was not set up.
    """
    found: dict[str, dict[str, Any]] = {}
    for engine in (True, False):
        names = [one.name for one in declared() if release in one.releases and one.engine is engine]
        for line in _run(release, engine, names):
            found[line["name"]] = line
    return found


def _run(release: str, engine: bool, names: list[str]) -> list[dict[str, Any]]:
    python, packages, version = trees.find(release)
    source.text(version, "fused_attn.cpp")  # says how to set it up where it is missing
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPATH"] = os.pathsep.join(map(str, packages))
    kind = "engine" if engine else "release"
    command = [str(python), str(HERE / "worker.py"), kind, release, version, str(source.folder(version)), *names]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    assert len(lines) == len(names), done.stderr[-2000:]
    return lines
