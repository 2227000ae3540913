"""Which rows of a table a configuration can reach: those that something written reaches, and those that they need.

A recipe by itself starts up. So a row whose inputs nobody touched refuses nothing, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mbpack.facts.checks import CALL, EACH, OWN, REFUSE, SET, SET_BY, Block, Uses


class Places(NamedTuple):
    """The keys of a block as whole paths, and the bits of those at or below a path, and at it."""

    paths: list[str]
    below: dict[str, int]
    exact: dict[str, int]


class Step(NamedTuple):
    """One row of the start-up, on the object at a path."""

    row: int
    inner: Any  # the steps of a call, else None


class Slice:
    """The rows to look at for one set of touched keys."""

    def __init__(
        self,
        block: Callable[[str], Block],
        used: Callable[[str], Uses],
        resolve: Callable[[str, list[Any]], tuple[str, str] | None],
        memo: dict[Any, Any],
        touched: set[str],
        odd: set[str],
        read: Callable[[str], Any],
    ) -> None:
        self.read = read
        self.block, self.used, self.resolve, self.memo = block, used, resolve, memo
        self.touched = set(touched)
        self.odd = set(odd)
        self.needed: set[str] = set()

    def steps(self, start: str) -> list[Step]:
        """The rows of the start-up that count, with those of the blocks that it calls."""
        marked, calls = self._forward(start, "")
        return self._backward(start, "", marked, calls)

    def steps_to(self, start: str, wanted: Callable[[str], bool]) -> list[Step]:
        """The rows that decide some checks, whatever is written."""
        marked, calls = self._search(start, "", wanted)
        return self._backward(start, "", marked, calls)

    def _search(self, name: str, root: str, wanted: Callable[[str], bool]) -> tuple[set[int], dict[int, Any]]:
        marked: set[int] = set()
        calls: dict[int, Any] = {}
        for index, row in enumerate(self.block(name).rows):
            if row[0] == CALL:
                target = self.resolve(root, row)
                if target is not None:
                    calls[index] = (target, self._search(*target, wanted))
            elif (row[0] == REFUSE and wanted(row[5])) or (
                row[0] == EACH and any(inner[0] == REFUSE and wanted(inner[5]) for inner in row[5])
            ):
                marked.add(index)
        return marked, calls

    def places(self, name: str, root: str) -> Places:
        """The keys of a block on an object."""
        found: Places | None = self.memo.get((name, root))
        if found is None:
            found = self.memo[name, root] = _places(self.block(name), root)
        return found

    def _forward(self, name: str, root: str) -> tuple[set[int], dict[int, Any]]:
        rows, used = self.block(name).rows, self.used(name)
        paths, below, _ = self.places(name, root)
        mask = self._mask(below, self.touched) | used.always
        odd = self._mask(below, self.odd)
        dead = self._dead(used, paths)
        marked: set[int] = set()
        calls: dict[int, Any] = {}
        index = -1
        while True:
            index = index + 1 if mask != used.always else next((call for call in used.calls if call > index), len(rows))
            if index >= len(rows):
                break
            reads = used.reads[index]
            if not reads & mask or used.wanted[index] & dead:
                continue
            row = rows[index]
            if row[0] == CALL:
                target = self.resolve(root, row)
                if target is not None:
                    before = len(self.touched) + len(self.odd)
                    calls[index] = (target, self._forward(*target))
                    if len(self.touched) + len(self.odd) != before:
                        mask |= self._mask(below, self.touched)
                        odd |= self._mask(below, self.odd)
                continue
            strange = reads & odd
            decides = used.decides[index]
            if decides == OWN or (decides and strange):
                marked.add(index)
            sets = used.sets[index]
            mask |= sets
            if strange:
                odd |= sets
            if row[0] in (SET, EACH, SET_BY):
                self._touch(sets, paths, self.touched)
                if strange:
                    self._touch(sets, paths, self.odd)
        return marked, calls

    def _dead(self, used: Uses, paths: list[str]) -> int:
        """The registers that say that a section is there, of sections that are null and that nobody touched."""
        dead = 0
        for bit, key in used.there:
            path = paths[key]
            if "." not in path and path not in self.touched and self.read(path) is None:
                dead |= bit
        return dead

    @staticmethod
    def _touch(sets: int, paths: list[str], found: set[str]) -> None:
        while sets:
            bit = sets & -sets
            sets ^= bit
            number = bit.bit_length() - 1
            if number >= len(paths):
                return
            found.add(paths[number])

    @staticmethod
    def _mask(index: dict[str, int], paths: Iterable[str]) -> int:
        mask = 0
        for path in paths:
            mask |= index.get(path, 0)
        return mask

    def _backward(self, name: str, root: str, marked: set[int], calls: dict[int, Any]) -> list[Step]:
        used = self.used(name)
        paths, _, exact = self.places(name, root)
        keys = (1 << len(paths)) - 1
        dead = self._dead(used, paths)
        mask = self._mask(exact, self.needed)
        steps: list[Step] = []
        last = len(used.sets) if mask else max((*marked, *calls), default=-1) + 1
        for index in range(last - 1, -1, -1):
            sets = used.sets[index]
            if index in calls:
                self._need(mask & keys, paths)
                target, inner_marks = calls[index]
                inner = self._backward(*target, *inner_marks)
                if inner:
                    steps.append(Step(index, (target, inner)))
                    mask |= used.reads[index] | self._mask(exact, self.needed)
            elif (sets & mask or index in marked) and not used.wanted[index] & dead:
                steps.append(Step(index, None))
                mask |= used.reads[index]
        self._need(mask & keys, paths)
        steps.reverse()
        return steps

    def _need(self, mask: int, paths: list[str]) -> None:
        while mask:
            bit = mask & -mask
            mask ^= bit
            path = paths[bit.bit_length() - 1]
            self.needed.add(path)
            self.needed.add(path.rpartition(".")[0])  # what takes the place of an object takes that of its fields


def _places(block: Block, root: str) -> Places:
    paths = [name if not root or name[:1] == "$" else f"{root}.{name}" if name else root for name in block.keys]
    below: dict[str, int] = {}
    exact: dict[str, int] = {}
    for number, path in enumerate(paths):
        exact[path] = exact.get(path, 0) | 1 << number
        while path:
            below[path] = below.get(path, 0) | 1 << number
            path = path.rpartition(".")[0]
    return Places(paths, below, exact)
