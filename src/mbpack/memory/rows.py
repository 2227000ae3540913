"""Rows of a ledger: bytes under the name of a term."""

from __future__ import annotations

from mbpack.memory.terms import TERMS


class Rows(dict[str, float]):
    """Bytes by term; adding to a row that is there sums them up, and nothing is kept without a term."""

    def put(self, term: str, size: float) -> None:
        """Add bytes to a term."""
        if term not in TERMS:
            raise KeyError(term)
        if size:
            self[term] = self.get(term, 0) + size

    def add(self, other: dict[str, float], times: float = 1) -> None:
        """Add the rows of another ledger, so many times."""
        for term, size in other.items():
            self[term] = self.get(term, 0) + size * times

    @property
    def total(self) -> float:
        """All bytes."""
        return sum(self.values())
