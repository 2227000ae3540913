"""Whether mbpack changes anything beside Megatron-Bridge: ``python tools/beside_releases.py [VERSION ...]``.

Resolves each released Megatron-Bridge alone, together with mbpack, and then with all extras of mbpack into what the first answer
has (as into an environment that is there), with ``uv pip compile``: uv is on PATH, nothing is installed. Prints what differs. Exit 1
where a package of the first answer has another version in another, 2 where something cannot be resolved.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from mbpack.facts.releases import RELEASES

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "plan,parquet,tokenize,plot,lsp"
#: Releases that the package index has.
PUBLISHED = ("0.3", "0.4", "0.5", "0.6")
#: Where a training runs; the oldest release needs a glibc of 2.31.
TARGET = ("--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_35")


class CannotResolve(Exception):
    """What uv says of requirements that have no solution."""


def resolve(requirements: list[str], present: str = "") -> str:
    """Pinned requirements as uv resolves them; versions of ``present`` stay wherever they can.

    Raises:
        CannotResolve: there is no solution, or uv is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "requirements.in", Path(folder) / "requirements.txt"
        source.write_text("\n".join(requirements) + "\n")
        if present:
            target.write_text(present)
        command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", *TARGET, str(source), "-o", str(target)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise CannotResolve("uv is not on PATH") from None
        if done.returncode:
            raise CannotResolve(done.stderr.strip())
        return target.read_text()


def versions(pinned: str) -> dict[str, str]:
    """Package -> version of pinned requirements."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", pinned, re.MULTILINE))


def changed(version: str) -> dict[str, tuple[str, str | None]]:
    """Packages that Megatron-Bridge alone gets in another version than beside mbpack: (alone, beside).

    Raises:
        CannotResolve: Megatron-Bridge, or both together, have no solution.
    """
    wanted = f"megatron-bridge=={version}"
    alone = resolve([wanted])
    before = versions(alone)
    found: dict[str, tuple[str, str | None]] = {}
    for package, present in (("mbpack", ""), (f"mbpack[{EXTRAS}]", alone)):
        after = versions(resolve([wanted, f"{package} @ {ROOT.as_uri()}"], present))
        found |= {name: (one, after.get(name)) for name, one in before.items() if after.get(name) != one}
    return found


def main() -> int:
    """Print a line a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    newest = [release.newest_patch for release in RELEASES if release.name in PUBLISHED]
    parser.add_argument("versions", nargs="*", default=newest, help=f"released versions (default: {' '.join(newest)})")
    code = 0
    for version in parser.parse_args().versions:
        try:
            found = changed(version)
        except CannotResolve as error:
            print(f"{version}: cannot be resolved: {error}")
            return 2
        words = ", ".join(f"{name} {one} -> {other}" for name, (one, other) in found.items())
        print(f"{version}: {words or 'nothing changes'}", flush=True)
        code = max(code, bool(found))
    return code


if __name__ == "__main__":
    sys.exit(main())
