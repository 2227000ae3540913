"""The house: one direction of imports, small modules, nothing heavy on the doctor's way, no path of one machine."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import schema
from mbpack.facts.sections import SECTION_NAMES

SRC = Path(__file__).resolve().parent.parent / "src" / "mbpack"
#: What each room may import; rooms further down come first.
ALLOWED = {
    "facts": {"facts"},
    "config": {"facts", "config"},
    "learn": {"facts", "config", "learn"},
    "checks": {"facts", "config", "checks"},
    "memory": {"facts", "config", "memory"},
    "rules": {"facts", "config", "checks", "memory", "rules"},
    "inspect": {"facts", "config", "inspect"},
    "plan": {"facts", "config", "plan"},
    "engine": {"facts", "config", "checks", "memory", "rules", "engine", "plan", "inspect"},
    "fix": {"facts", "config", "rules", "engine", "fix"},
    "report": {"facts", "config", "memory", "rules", "engine", "report", "plan", "inspect"},
    "verify": {"facts", "config", "rules", "engine", "verify"},
    "wizard": {"facts", "config", "memory", "rules", "engine", "report", "wizard", "plan", "inspect"},
    "skill": set(),
    "lsp": {"facts", "config", "rules", "engine", "fix", "lsp"},
    "cli": {
        "lsp",
        "skill",
        "facts",
        "config",
        "memory",
        "rules",
        "engine",
        "report",
        "wizard",
        "plan",
        "inspect",
        "fix",
        "verify",
        "learn",
        "cli",
    },
}
HEAVY = {"rich", "questionary", "omegaconf", "hydra", "numpy", "pyarrow", "importlib.metadata", "pydantic"}
MODULES = sorted(SRC.rglob("*.py"))


def _imports(path: Path) -> set[str]:
    found = set()
    package = path.relative_to(SRC.parent).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: -node.level]) + "." if node.level else ""
            found.add((base + (node.module or "")).rstrip("."))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_run_one_way(path: Path) -> None:
    room = path.relative_to(SRC).parts[0]
    if room.endswith(".py"):
        return
    used = {name.split(".")[1] for name in _imports(path) if name.startswith("mbpack.")}
    assert used <= ALLOWED[room] | {"__version__"}, f"{room} imports {sorted(used - ALLOWED[room])}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 430


def test_topic_folders_of_the_rules_form_no_circle() -> None:
    rooms = sorted(path.name for path in (SRC / "rules").iterdir() if (path / "__init__.py").exists())
    uses = {
        room: {
            parts[2]
            for path in (SRC / "rules" / room).glob("*.py")
            for parts in [name.split(".") for name in _imports(path)]
            if parts[:2] == ["mbpack", "rules"] and len(parts) > 2 and parts[2] in rooms and parts[2] != room
        }
        for room in rooms
    }
    list(TopologicalSorter(uses).static_order())  # raises CycleError, naming the circle


def test_doctor_imports_nothing_heavy(tmp_path: Path) -> None:
    example = tmp_path / "a.yaml"
    example.write_text("# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8\ntrain: {global_batch_size: 8}\n")
    code = (
        "import sys; from mbpack.cli.main import run; run(['doctor', sys.argv[1]]); "
        f"print([name for name in {sorted(HEAVY)!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(example)], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_a_start_imports_no_typing_extensions_and_leaves_it_importable() -> None:
    code = (
        "import sys; from mbpack.__main__ import load_libraries; load_libraries(); "
        "print('msgspec' in sys.modules, 'typing_extensions' in sys.modules); import typing_extensions; print(typing_extensions.Any)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "typing.Any"]


def test_version_imports_nothing_of_the_command_line() -> None:
    code = (
        "import sys; sys.argv = ['mbpack', '--version']; from mbpack.__main__ import main; main(); print('typer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_section_names_are_those_of_the_schemas() -> None:
    known = {name for release in RELEASES for name in schema(release.name).sections if not name.startswith("_")}
    assert known == SECTION_NAMES
