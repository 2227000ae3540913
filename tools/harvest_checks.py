#!/usr/bin/env python3
"""Read what the start-up of a Megatron-Bridge release checks and derives, as tables of facts.

usage: python tools/harvest_checks.py RELEASE PACKAGES [--te VERSION] [--torch VERSION] [--data DIR] [--beyond]

PACKAGES is the folder that holds the package `megatron` of that release (`python -m tests.conformance.real list` names
them). Nothing is imported or executed: the sources are read as syntax trees. Writes `checks-<release>.bin`, which mbpack
reads, and `checks-<release>.txt`, which says the same for people; compare two releases with
`diff checks-0.5.txt checks-0.6.txt`. What the tables have no words for is counted, and listed with --beyond: those
conditions stay open, and what they decide needs a rule written by hand.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from mbpack.checks.render import table_text  # noqa: E402
from mbpack.facts.attention import TRANSFORMER_ENGINE  # noqa: E402
from mbpack.facts.checks import Checks  # noqa: E402
from mbpack.learn.sources import Sources  # noqa: E402
from mbpack.learn.tables import Builder, stored  # noqa: E402


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers."""
    return tuple(int(part) for part in version.split(" ")[0].split("."))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release")
    parser.add_argument("packages", type=Path)
    parser.add_argument("--te", help="the Transformer Engine that the release pins")
    parser.add_argument("--torch", help="the version of torch, where what it decides is to be known")
    parser.add_argument("--data", type=Path, default=HERE.parent / "src/mbpack/facts/data")
    parser.add_argument("--beyond", action="store_true", help="list everything that the tables have no words for")
    arguments = parser.parse_args()
    pinned = {release.name: version for release, version in TRANSFORMER_ENGINE.items()}
    engine = arguments.te or pinned[arguments.release]
    sys.setrecursionlimit(20_000)
    versions = {"transformer-engine": numbers(engine)}
    if arguments.torch:
        versions["torch"] = numbers(arguments.torch)
    builder = Builder(Sources(arguments.packages), versions)
    table = builder.build()
    data = stored(table)
    (arguments.data / f"checks-{arguments.release}.bin").write_bytes(data)
    text = table_text(Checks(data))
    (arguments.data / f"checks-{arguments.release}.txt").write_text(text, encoding="utf-8")
    refusals = text.count("\nrefuse ") + text.count("  refuse ")
    print(f"{arguments.release}: {len(table.blocks)} blocks, {refusals} refusals, {len(table.beyond)} things beyond the tables")
    if arguments.beyond:
        for place, reason in sorted(table.beyond):
            print(f"  {place}: {reason}")


if __name__ == "__main__":
    main()
