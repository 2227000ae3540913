"""Which rule says what a check of the tables says, by the release-independent name of the check."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mbpack.facts.schema import read_data

SAID = "check-slugs.tsv"


@cache
def slugs() -> Mapping[str, tuple[str, ...]]:
    """The slugs of the rules that speak for a check, for every check that has one."""
    lines = read_data(SAID).decode().splitlines()
    pairs = (line.split("\t") for line in lines if line and not line.startswith("#"))
    return {name: tuple(said.split()) for name, said in pairs}
