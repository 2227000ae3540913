"""Where Transformer Engine's Python and C++ text come from: the published wheel, and its repository at the same tag.

Both land in the folder of the real releases (`te-<version>/`); nothing of either is part of this repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ..real import environments

REPOSITORY = "https://github.com/NVIDIA/TransformerEngine"
#: A local clone to read instead of the network.
VARIABLE = "MBPACK_TE_REPO"
#: The text that is compiled or read, by its path in the repository.
FILES = (
    "transformer_engine/common/fused_attn/context_parallel.cu",
    "transformer_engine/common/fused_attn/fused_attn.cpp",
    "transformer_engine/common/fused_attn/utils.cu",
    "transformer_engine/common/include/transformer_engine/fused_attn.h",
)
#: What 0.7 pins, which is no package yet.
NEWEST = "2.18.0"


def versions() -> list[str]:
    """Transformer Engine of each release, oldest first, and the newest."""
    return [*(release.transformer_engine for release in environments.RELEASES.values()), NEWEST]


def of_release(release: str) -> str:
    """The version that a release line pins."""
    known = environments.RELEASES.get(release)
    return known.transformer_engine if known else NEWEST


def folder(version: str) -> Path:
    return environments.folder() / f"te-{version}"


def text(version: str, name: str) -> str:
    """One file of FILES, named by its last part. Raises EnvironmentMissing when it was not set up."""
    path = folder(version) / "source" / name
    if not path.exists():
        raise environments.EnvironmentMissing(
            f"{path} is missing: run `python -m tests.conformance.engine.source` (once; git and network needed)"
        )
    return path.read_text()


def setup() -> None:
    """Wheels from the package index, text from the repository."""
    for version in versions():
        target = folder(version)
        if not (target / "transformer_engine").is_dir():
            wheel = ["install", "--quiet", "--no-deps", "--ignore-requires-python", "--target", str(target)]
            subprocess.run([sys.executable, "-m", "pip", *wheel, f"transformer-engine=={version}"], check=True)
        (target / "source").mkdir(parents=True, exist_ok=True)
        for name in FILES:
            place = target / "source" / Path(name).name
            if not place.exists():
                place.write_bytes(_show(version, name))


def _show(version: str, name: str) -> bytes:
    """One file at the tag of a version; the tag of a first release ends without ".0"."""
    tag = f"v{version.removesuffix('.0')}"
    clone = os.environ.get(VARIABLE) or str(environments.folder() / "te-repository")
    if not Path(clone).exists():
        subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", REPOSITORY, clone], check=True)
    return subprocess.run(["git", "-C", clone, "show", f"{tag}:{name}"], check=True, capture_output=True).stdout


if __name__ == "__main__":
    setup()
