"""States of Megatron-Bridge that are no package here: a tag between two releases, the development tree of the next one.

    python -m tests.conformance.engine.trees                 both, from their repositories (once; git and network needed)

They land in the folder of the real releases (`tree-<name>/`) and run with the libraries of a release that is installed there. A
tree that somebody laid there by hand, because no single state of the repositories holds it, is found by its folder's name and runs
with the libraries of the newest release.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

from ..real import environments
from . import source

BRIDGE, CORE = "https://github.com/NVIDIA-NeMo/Megatron-Bridge", "https://github.com/NVIDIA/Megatron-LM"
#: Local clones to read instead of the network.
VARIABLES = {BRIDGE: "MBPACK_BRIDGE_REPO", CORE: "MBPACK_CORE_REPO"}


class Tree(NamedTuple):
    """`bridge` and `core` are states of the repositories (without `core` that of `base`), `base` the release whose libraries serve."""

    bridge: str
    core: str
    base: str
    transformer_engine: str


TREES = {
    "0.5.0": Tree("v0.5.0", "", "0.5", environments.RELEASES["0.5"].transformer_engine),
    "0.7": Tree("067f987d", "2a75ac12c54ba6a42b34024756820bf819a2e25f", "0.6", source.NEWEST),
}


def folder(name: str) -> Path:
    return environments.folder() / f"tree-{name}"


def find(name: str) -> environments.Place:
    """Python, import folders and Transformer Engine version of a release line or a tree.

    Raises EnvironmentMissing when it was not set up.
    """
    tree = TREES.get(name)
    if tree is None:
        if name in environments.RELEASES or not (folder(name) / "megatron" / "bridge").is_dir():
            return environments.find(name)
        tree = Tree("", "", list(environments.RELEASES)[-1], source.NEWEST)
    if not (folder(name) / "megatron" / "bridge").is_dir():
        raise environments.EnvironmentMissing(f"{folder(name)} is missing: run `python -m tests.conformance.engine.trees`")
    python, packages, _ = environments.find(tree.base)
    return python, [folder(name), *packages], tree.transformer_engine


def available() -> list[str]:
    """Release lines and trees that are set up, oldest first."""
    found = []
    for name in sorted({*environments.RELEASES, *TREES}):
        try:
            find(name)
        except environments.EnvironmentMissing:
            continue
        found.append(name)
    return found


def setup() -> None:
    for name, tree in TREES.items():
        if (folder(name) / "megatron" / "bridge").is_dir():
            continue
        if tree.core:
            _extract(CORE, tree.core, "megatron/core", folder(name), 0)
        _extract(BRIDGE, tree.bridge, "src/megatron/bridge", folder(name), 1)


def _extract(repository: str, state: str, path: str, target: Path, leading: int) -> None:
    """The files below a path of a repository's state; `leading` parts of their names are left out."""
    clone = os.environ.get(VARIABLES[repository]) or str(environments.folder() / f"{repository.rpartition('/')[2]}-repository")
    if not Path(clone).exists():
        subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", repository, clone], check=True)
    packed = subprocess.run(["git", "-C", clone, "archive", state, path], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for member in files.getmembers():
            member.name = "/".join(member.name.split("/")[leading:])
            if member.name:
                files.extract(member, target, filter="data")


if __name__ == "__main__":
    setup()
