"""A made-up checkout: the files upstream's selections name, with as many tests as each should select."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from mbpack.facts.upstream_tests import Selection, commands

VERSIONS = {"0.3": (0, 3, 1), "0.4": (0, 4, 2), "0.5": (0, 5, 1), "0.6": (0, 6, 0), "0.7": (0, 7, 0)}
INFO = "src/megatron/bridge/package_info.py"


def package(root: Path, major: int, minor: int, patch: int, pre: str = "") -> Path:
    """The part of a checkout that states its version."""
    info = root / INFO
    info.parent.mkdir(parents=True, exist_ok=True)
    info.write_text(
        f'MAJOR = {major}\nMINOR = {minor}\nPATCH = {patch}\nPRE_RELEASE = "{pre}"\n'
        "VERSION = (MAJOR, MINOR, PATCH, PRE_RELEASE)\n"
        '__version__ = ".".join(map(str, VERSION[:3]))\n'
    )
    (root / "tests").mkdir(exist_ok=True)
    return root


def checkout(root: Path, release: str = "0.6") -> Path:
    """A checkout in which every selection of the release selects what is expected."""
    package(root, *VERSIONS[release])
    texts: defaultdict[str, list[str]] = defaultdict(lambda: ["import pytest\n"])
    for selection in commands(release):
        texts[selection.path].append(text_for(selection))
    for path, parts in texts.items():
        write(root, path, "\n".join(parts))
    return root


def text_for(selection: Selection, number: int | None = None) -> str:
    """A function with as many parameters as tests are expected."""
    name = selection.keyword.split(" ")[0] or "all"
    count = selection.expected if number is None else number
    if not count:
        return ""
    return f'@pytest.mark.parametrize("case", range({count}))\ndef test_{name}(case):\n    pass\n'


def write(root: Path, path: str, text: str) -> Path:
    """One file of a checkout."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
