"""Runs the table of a release over one configuration: what refuses the start-up, in its own order, all at once.

A refusal is noted and passed as if it had been mended. A row whose condition is not known is open: it refuses nothing
and leaves what it derives open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mbpack.checks.decided import decided
from mbpack.checks.functions import truth
from mbpack.checks.names import slugs
from mbpack.checks.seeds import Seeds, begins_at, seeds
from mbpack.checks.slices import Slice, Step
from mbpack.checks.values import OPEN, Held, Values
from mbpack.checks.words import ERRORS, value
from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT
from mbpack.facts.checks import ADD, CALL, EACH, LET, REFUSE, SET, SET_BY, Block, Checks, checks

_DEEPEST = 12
_CLASS, _SPECIAL = "class", "special"
#: More refusals than a class adds to those that all have.
_MANY = 60
#: Selections of rows that are kept.
_MOST = 4096
#: Where some models keep the settings of Megatron-Core; they count as the model's own.
_NESTED = ".transformer"
#: Sections whose keys are looked at together.
_BY_NAME = frozenset({"mixed_precision", "env_vars"})


class Refusal(NamedTuple):
    """A start-up that stops: the row of a block that stops it, on the object at a path."""

    #: What the check is called in every release; of Python's own errors the function.
    name: str
    block: str
    row: tuple[int, ...]
    root: str
    #: The name of Python's own error, "" where upstream refuses by itself.
    error: str = ""
    #: Whether the object cannot even be made: before the start-up itself.
    made: bool = False
    #: What the check is called even where Python's own error stops it; "" where the row is none.
    check: str = ""


class Start:
    """The start-up of one run."""

    def __init__(self, run: Run, table: Checks) -> None:
        self.run, self.table = run, table
        self.values = Values(run)
        self.refusals: list[Refusal] = []
        #: Checks whose condition is not known, with the block and the row they stand in and the object they are about.
        self.open: list[Refusal] = []
        self.state: dict[str, Any] = {}
        self._root = ""
        self._keys: list[str] = []
        self._registers: list[Any] = []
        self._variables: dict[int, Any] = {}
        self._certain = True
        self._name = ""
        self._block: Block | None = None
        self._depth = 0
        self._making = False

    # ------------------------------------------------------------------ what expressions ask for

    def path(self, number: int) -> str:
        """The whole path of a key of the block."""
        name = self._keys[number]
        return name if not self._root or name[:1] == "$" else f"{self._root}.{name}" if name else self._root

    def field(self, number: int) -> Any:
        """What a key holds now; ABSENT without such a field."""
        path = self.path(number)
        if path in self.state:
            return self.state[path]
        if path[:1] == "$":
            return OPEN
        owner = path.rpartition(".")[0]
        if owner in self.state and not isinstance(self.state[owner], Held):
            holder = self.state[owner]
            return ABSENT if holder is None else OPEN
        return self.values.read(path)

    def key(self, number: int) -> Any:
        """What a key holds now. Raises AttributeError where the object that should hold it is null."""
        held = self.field(number)
        if held is ABSENT:
            owner = self.path(number).rpartition(".")[0]
            if owner and (self.state[owner] if owner in self.state else self.values.read(owner)) is None:
                raise AttributeError(owner)
            return OPEN
        return held

    def register(self, number: int) -> Any:
        return self._registers[number]

    def variables(self) -> dict[int, Any]:
        return self._variables

    def is_of(self, number: int, classes: Iterable[str]) -> Any:
        """Whether the object at a key is of one of some classes."""
        path = self.path(number)
        held = self.values.read(path) if path not in self.state else self.state[path]
        if held is None or isinstance(held, (bool, int, float, str, list, dict)):
            return False
        cls = self.class_path(path)
        return OPEN if cls is None else cls in classes

    def class_path(self, path: str) -> str | None:
        """The import path of the class of an object, None where it is not known."""
        cls = self.values.class_of(path)
        if cls is None:
            return None
        memo = self.table.memo
        if (_CLASS, cls) not in memo:
            memo[_CLASS, cls] = self.run.settings.schema.path(cls)
        found: str | None = memo[_CLASS, cls]
        return found

    def environment(self, name: str) -> Any:
        """An environment variable: the environment's own, else what the configuration sets; None for one that is not set."""
        environ = self.run.settings.environ
        if environ is not None and name in environ:
            return environ[name]
        held = self.values.read("env_vars")
        if isinstance(held, dict) and name in held:
            return OPEN if held[name] is OPEN else str(held[name])
        return OPEN if environ is None or held is OPEN else None

    def gpus(self) -> Any:
        return OPEN if self.run.context.gpus is None else self.run.context.gpus

    # ------------------------------------------------------------------ after a change

    def reaches(self, changed: Iterable[tuple[str, ...]]) -> bool:
        """Whether the rows that were looked at read something at, above or below one of the paths of this release."""
        read = self.values.paths
        for path in changed:
            whole = ".".join(path).replace("model.transformer.", "model.", 1)
            if path[0] in _BY_NAME or any(
                one == whole or one.startswith(f"{whole}.") or whole.startswith(f"{one}.") for one in read
            ):
                return True
        return False

    def begins_at(self, run: Run, changed: Iterable[tuple[str, ...]]) -> bool:
        """Whether looking at the tables for another run would begin at one of the paths."""
        return any(begins_at(run, self.table, path) for path in changed)

    # ------------------------------------------------------------------ rows

    def start(self, whole: bool = False) -> list[Refusal]:
        """All refusals, in the order of the start-up; ``whole`` looks at every row, whatever is written."""
        if whole:
            self.make_objects()
            self.run_block(self.table.start, "", None)
            return self.refusals
        begin = seeds(self.run, self.values, self.table)
        begin.touched.update(self._special())
        if begin.touched:
            self.make_objects()
            self.run_block(self.table.start, "", self._steps(begin))
        return self.refusals

    def _steps(self, begin: Seeds) -> list[Step]:
        """The rows to look at, the same for files that write the same keys and classes."""
        memo, recipe = self.table.memo, self.run.settings.recipe
        roots = [layer.root.value for layer in self.run.settings.layers]
        sections = frozenset(name for root in roots if root.__class__ is dict for name in root if name.__class__ is str)
        mark = (frozenset(begin.touched), frozenset(begin.odd), *begin.named, recipe and recipe.name, sections)
        found: list[Step] | None = memo.get(mark)
        if found is None:
            if len(memo) > _MOST:
                memo.clear()
            cut = Slice(self.table.block, self.table.uses, self.resolve, memo, begin.touched, begin.odd, self.values.read)
            found = memo[mark] = cut.steps(self.table.start)
        return found

    def _special(self) -> list[str]:
        """The objects of complete files whose class checks something that no rule speaks of."""
        if not self.run.settings.complete:
            return []
        return [path for path in ("model", "dataset") if self._is_special(self.class_path(path))]

    def _is_special(self, cls: str | None) -> bool:
        memo = self.table.memo
        if (_SPECIAL, cls) not in memo:
            blocks = [self.table.method(cls, name) for name in ("finalize", "__post_init__")] if cls is not None else []
            memo[_SPECIAL, cls] = any(block is not None and cls is not None and self._unsaid(block) for block in blocks)
        return bool(memo[_SPECIAL, cls])

    def _unsaid(self, block: str) -> bool:
        refusals = [row[5] for row in self.table.block(block).rows if row[0] == REFUSE]
        return len(refusals) < _MANY and any(name not in slugs() for name in refusals)

    def make_objects(self) -> None:
        """What the classes check as soon as an object is made: in complete files; an override that cannot be made is merged."""
        settings = self.run.settings
        if not settings.complete:
            return
        self._making = True
        for layer in reversed(settings.layers):
            sections = layer.root.value
            for section, item in sections.items() if sections.__class__ is dict else ():
                if section.__class__ is str:
                    self._make(section, item)
        self._making = False

    def _make(self, path: str, item: Item) -> None:
        children = item.value
        if children.__class__ is not dict:
            return
        for name, child in children.items():
            if name.__class__ is str:
                self._make(f"{path}.{name}", child)
        cls = self.class_path(path)
        block = self.table.method(cls, "__post_init__") if cls is not None else None
        if block is not None:
            self.run_block(block, path.removesuffix(_NESTED), None)

    def names(self) -> Iterator[tuple[str, str, int]]:
        """Every check of this start-up in its order: what it is called, and the block and row it stands in."""
        yield from self._names(self.table.start, "")

    def _names(self, block: str, root: str) -> Iterator[tuple[str, str, int]]:
        for index, row in enumerate(self.table.block(block).rows):
            if row[0] == CALL:
                target = self.resolve(root, row)
                if target is not None:
                    yield from self._names(*target)
            else:
                yield (row[5] if row[0] == REFUSE else ""), block, index

    def run_block(self, name: str, root: str, steps: list[Step] | None) -> None:
        if self._depth > _DEEPEST:
            return
        kept = self._root, self._keys, self._registers, self._variables, self._name, self._block
        block = self.table.block(name)
        self._root, self._keys, self._name, self._block = root, block.keys, name, block
        self._registers, self._variables = [OPEN] * block.registers, {}
        self._depth += 1
        try:
            if steps is None:
                self._run(block.rows, ())
            else:
                self._run_steps(block.rows, steps)
        finally:
            self._depth -= 1
            self._root, self._keys, self._registers, self._variables, self._name, self._block = kept

    def _run(self, rows: list[list[Any]], inner: tuple[int, ...]) -> None:
        certain = self._certain
        for index, row in enumerate(rows):
            known: Any = certain
            for guard, wanted in row[1]:
                held = truth(self._safe(guard))
                if held is OPEN:
                    known = False
                elif held is not wanted:
                    break
            else:
                self._certain = known
                self._do(row, index, inner)
                self._certain = certain

    def _run_steps(self, rows: list[list[Any]], steps: list[Step]) -> None:
        certain = self._certain
        for index, inner in steps:
            row = rows[index]
            known: Any = certain
            for guard, wanted in row[1]:
                held = truth(self._safe(guard))
                if held is OPEN:
                    known = False
                elif held is not wanted:
                    break
            else:
                self._certain = known
                if inner is not None:
                    self.run_block(inner[0][0], inner[0][1], inner[1])
                elif row[0] != CALL:
                    self._do(row, index, ())
                self._certain = certain

    def _safe(self, guard: Any) -> Any:
        try:
            return value(self, guard)
        except ERRORS:
            return OPEN

    def _do(self, row: list[Any], index: int, inner: tuple[int, ...]) -> None:
        kind = row[0]
        try:
            held = value(self, row[3])
            if kind == REFUSE:
                known = truth(held)
                if self._certain and known is True:
                    self._refuse(row, index, inner, "")
                elif known is OPEN or known is True:
                    self.open.append(Refusal(row[5], self._name, (*inner, index), self._root))
            elif kind == EACH:
                self._each(row, held, (*inner, index))
                return
        except ERRORS as error:
            if self._certain:
                self._refuse(row, index, inner, type(error).__name__)
            held = OPEN
        if kind == LET:
            self._registers[row[2]] = held
        elif kind == SET:
            self._set(self.path(row[2]), held)
        elif kind == SET_BY:
            self._set_by(row, held)
        elif kind == ADD:
            self._add(row[2], held)
        elif kind == CALL:
            self._call(row)

    def _set(self, path: str, held: Any) -> None:
        if not self._certain and held is not OPEN:
            now = self.state[path] if path in self.state else self.values.read(path) if path[:1] != "$" else OPEN
            if now is OPEN or type(now) is not type(held) or now != held:
                held = OPEN
        self.state[path] = held

    def _set_by(self, row: list[Any], held: Any) -> None:
        if isinstance(held, tuple) and isinstance(held[0], str):
            owner = ".".join(part for part in (self._root, row[2]) if part)
            self._set(f"{owner}.{held[0]}", held[1])
            return
        assert self._block is not None
        for number in self._block.by_name:
            self.state[self.path(number)] = OPEN

    def _add(self, register: int, held: Any) -> None:
        now = self._registers[register]
        if isinstance(now, list) and self._certain:
            self._registers[register] = [*now, held]
        elif isinstance(now, set) and self._certain and held is not OPEN:
            self._registers[register] = {*now, held}
        else:
            self._registers[register] = OPEN

    def _call(self, row: list[Any]) -> None:
        target = self.resolve(self._root, row)
        if target is not None:
            self.run_block(*target, None)

    def resolve(self, root: str, row: list[Any]) -> tuple[str, str] | None:
        """The block that a call runs and the object it runs on, None for nothing to check."""
        path, name = row[2]
        if path == "@":
            return name, root
        whole = f"{root}.{path}" if root and path else path or root
        if whole in self.state and not isinstance(self.state[whole], Held):
            return None
        cls = self.class_path(whole)
        block = self._method(cls, name) if cls is not None else None
        return (block, whole.removesuffix(_NESTED)) if block is not None else None

    def _method(self, cls: str, name: str) -> str | None:
        """The block of a method of a class; a class that is newer than the table is taken for the one its name ends in."""
        found = self.table.method(cls, name)
        if found is not None or cls in self.table.methods or checks(self.run.release.name) is self.table:
            return found
        memo, short = self.table.memo, cls.rpartition(".")[2]
        if (_CLASS, "like", short) not in memo:
            like = [path for path in self.table.methods if short.endswith(path.rpartition(".")[2])]
            memo[_CLASS, "like", short] = max(like, key=len, default=None)
        older = memo[_CLASS, "like", short]
        return self.table.method(older, name) if older is not None else None

    def _each(self, row: list[Any], held: Any, inner: tuple[int, ...]) -> None:
        if held is OPEN or isinstance(held, Held):
            for nested in row[5]:
                if nested[0] == SET:
                    self.state[self.path(nested[2])] = OPEN
                elif nested[0] == SET_BY:
                    self._set_by(nested, OPEN)
                elif nested[0] in (LET, ADD):
                    self._registers[nested[2]] = OPEN
            return
        for item in held:
            self._variables[row[2]] = item
            self._run(row[5], inner)

    def _refuse(self, row: list[Any], index: int, inner: tuple[int, ...], error: str) -> None:
        assert self._block is not None
        name = row[5] if row[0] == REFUSE and not error else self._block.places[row[4]]
        check = row[5] if row[0] == REFUSE else decided(self._block, row, index) if error and not inner else ""
        self.refusals.append(Refusal(name, self._name, (*inner, index), self._root, error, self._making, check))


def refusals(run: Run) -> list[Refusal] | None:
    """What certainly refuses a start-up, in its own order; None where nothing is known of the release."""
    table = checks(run.release.name)
    return Start(run, table).start() if table is not None else None
