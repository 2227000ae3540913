"""Which rows of a table a configuration can reach: those that something written reaches, and those that they need.

A recipe by itself starts up. So a row whose inputs nobody touched refuses nothing, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mbpack.config.document import Item
from mbpack.config.settings import Settings
from mbpack.facts.checks import ADD, CALL, EACH, LET, REFUSE, SET, USE, Block

#: The part of a model that holds Megatron-Core's settings; they count as the model's own.
NESTED = "transformer"


class Uses(NamedTuple):
    """What the rows of a block read and set, as bits: keys of the block first, then its registers, then what counts as touched."""

    reads: list[int]
    sets: list[int]
    decides: list[bool]  # which can stop the start-up by themselves
    always: int


class Places(NamedTuple):
    """The keys of a block as whole paths, and the bits of those at or below a path, and at it."""

    paths: list[str]
    below: dict[str, int]
    exact: dict[str, int]


class Step(NamedTuple):
    """One row of the start-up, on the object at a path."""

    row: int
    inner: Any  # the steps of a call, else None


#: Words that work out an answer for every operand.
_SAFE = frozenset("k r v not and or if == != is isa cls has get list tuple dict env gpus fails open sym member when".split()) | {
    "is not"
}


def uses(block: Block) -> Uses:
    """What the rows of a block read and set."""
    first = len(block.keys)
    always = 1 << (first + block.registers)
    found = [_use(row, first, always) for row in block.rows]
    return Uses([use[0] for use in found], [use[1] for use in found], [use[2] for use in found], always)


def _use(row: list[Any], first: int, always: int) -> tuple[int, int, bool]:
    reads, safe = _reads(row[3], first, always)
    for guard, _ in row[1]:
        reads |= _reads(guard, first, always)[0]
    kind, sets = row[0], 0
    if kind in (LET, ADD):
        sets = 1 << (first + row[2])
        reads |= sets if kind == ADD else 0
    elif kind == SET:
        sets = 1 << row[2]
    elif kind == CALL:
        reads |= always
    elif kind == EACH:
        for inner in row[5]:
            more, too, _ = _use(inner, first, always)
            reads, sets = reads | more, sets | too
    return reads, sets, kind in (REFUSE, USE, EACH) or not safe


def _reads(node: Any, first: int, always: int) -> tuple[int, bool]:
    if node.__class__ is not list:
        return 0, True
    head = node[0]
    if head == "k":
        return 1 << node[1], True
    if head == "r":
        return 1 << (first + node[1]), True
    reads, safe = (always if head == "gpus" else 0), head in _SAFE
    parts: Iterable[Any] = node[1:]
    if head in ("cls", "has", "get"):
        reads = 1 << node[1]
        parts = node[2:] if head == "get" else ()
    elif head == "dict":
        parts = [part for pair in node[1:] for part in pair]
    for part in parts:
        more, inner = _reads(part, first, always)
        reads, safe = reads | more, safe and inner
    return reads, safe


class Slice:
    """The rows to look at for one set of touched keys."""

    def __init__(
        self,
        block: Callable[[str], Block],
        used: Callable[[str], Uses],
        resolve: Callable[[str, list[Any]], tuple[str, str] | None],
        memo: dict[Any, Any],
        touched: set[str],
    ) -> None:
        self.block, self.used, self.resolve, self.memo = block, used, resolve, memo
        self.touched = set(touched)
        self.needed: set[str] = set()

    def steps(self, start: str) -> list[Step]:
        """The rows of the start-up that count, with those of the blocks that it calls."""
        marked, calls = self._forward(start, "")
        return self._backward(start, "", marked, calls)

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
        marked: set[int] = set()
        calls: dict[int, Any] = {}
        for index, reads in enumerate(used.reads):
            if not reads & mask:
                continue
            row = rows[index]
            if row[0] == CALL:
                target = self.resolve(root, row)
                if target is not None:
                    before = len(self.touched)
                    calls[index] = (target, self._forward(*target))
                    if len(self.touched) != before:
                        mask |= self._mask(below, self.touched)
                continue
            if used.decides[index]:
                marked.add(index)
            mask |= used.sets[index]
            if row[0] == SET:
                self.touched.add(paths[row[2]])
            elif row[0] == EACH:
                self._touch(used.sets[index], paths)
        return marked, calls

    def _touch(self, sets: int, paths: list[str]) -> None:
        self.touched.update(path for number, path in enumerate(paths) if sets >> number & 1)

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
        mask = self._mask(exact, self.needed)
        steps: list[Step] = []
        index = len(used.sets)
        for sets in reversed(used.sets):
            index -= 1
            if index in calls:
                self._need(mask & keys, paths)
                target, inner_marks = calls[index]
                inner = self._backward(*target, *inner_marks)
                if inner:
                    steps.append(Step(index, (target, inner)))
                    mask |= used.reads[index] | self._mask(exact, self.needed)
            elif sets & mask or index in marked:
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


#: Sections that every configuration has.
_ALWAYS = frozenset(
    "model dataset train optimizer scheduler ddp checkpoint logger tokenizer rng dist validation env_vars".split()
)


def touched(settings: Settings) -> set[str]:
    """The keys that the layers write, as the release spells them; an object's own where it may be another one."""
    found: set[str] = set()

    def collect(item: Item, path: str) -> None:
        children = item.value
        if children.__class__ is not dict:
            found.add(path)
            return
        if "_target_" in children or (path and path not in _ALWAYS):
            found.add(path)
        for name, child in children.items():
            if name == NESTED and path == "model":
                collect(child, path)
            elif name.__class__ is str:
                collect(child, f"{path}.{name}" if path else name)

    for layer in settings.layers:
        collect(layer.root, "")
    return found


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
