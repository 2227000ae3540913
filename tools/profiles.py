"""What the recipes of every release answer, by question: src/mbpack/facts/data/profiles-<release>.bin, made of recipes-<release>.tsv.

usage: python tools/profiles.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from mbpack.facts.recipe_sets import columns_of, packed
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import DATA


def main() -> None:
    for release in RELEASES:
        (Path(DATA) / f"profiles-{release.name}.bin").write_bytes(packed(columns_of(release.name)))


if __name__ == "__main__":
    main()
