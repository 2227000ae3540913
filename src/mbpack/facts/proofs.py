"""How a rule's consequence is known: shown by running upstream's code, read in it, or reported in public.

`data/proofs.tsv` is written by `python -m tests.conformance.demonstrations.table`: code, kind, releases, and the demonstration
or the reason why there is none.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from mbpack.facts.schema import read_data

SHOWN, READ, REPORTED = "shown", "read", "reported"
#: Where the demonstrations are, from the top of a checkout.
DEMONSTRATIONS = "tests/conformance/demonstrations"


class Proof(NamedTuple):
    """``releases``: those a demonstration ran on. ``detail``: its name, else why upstream's code cannot be run for it."""

    kind: str
    releases: tuple[str, ...]
    detail: str


def proof_of(code: str) -> Proof | None:
    """The proof of a rule, None for rules that only remark on something or that the start-up itself enforces."""
    return _proofs().get(code)


@cache
def _proofs() -> dict[str, Proof]:
    found = {}
    for line in read_data("proofs.tsv").decode().splitlines():
        if not line.startswith("#"):
            code, kind, releases, detail = line.split("\t")
            found[code] = Proof(kind, tuple(releases.split()), detail)
    return found
