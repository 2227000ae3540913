"""Which keys an entry of words reads: those without which its checks hold on no recipe alone, and those that they ask for at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from mbpack.checks.evaluate import Start
from mbpack.checks.functions import truth
from mbpack.checks.read import keys_of
from mbpack.checks.render import Renderer
from mbpack.checks.values import OPEN, canonical
from mbpack.config.context import Given, resolve_context
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Settings
from mbpack.engine.reads import TARGET
from mbpack.facts.checks import ADD, CALL, EACH, LET, REFUSE, SET, SET_BY, Checks, checks
from mbpack.facts.recipes import Recipe, find, names
from mbpack.facts.releases import RELEASES, Release
from mbpack.facts.schema import schema
from mbpack.rules.worded import Worded, table_of, worded

#: Sections that every recipe has: what is written in them is asked for key by key, only their class as a whole.
_ALWAYS = frozenset("model dataset train optimizer scheduler ddp checkpoint logger tokenizer rng dist validation".split())


class Node(NamedTuple):
    """An expression of a block on the object at a path."""

    block: str
    root: str
    node: Any


#: In the place of an expression: nothing certain keeps a check from holding, so all that it asks for counts.
_UNKNOWN = Node("", "", None)


class Lines:
    """Where the values of one start-up come from: its blocks, and what each of their rows sets."""

    def __init__(
        self, table: Checks, release: Release, blocks: Iterable[tuple[str, str]], exists: Callable[[str], bool] | None = None
    ) -> None:
        self.table, self.release, self.exists = table, release, exists
        self._renderers: dict[tuple[str, str], Renderer] = {}
        self._registers: dict[tuple[str, str, int], list[Any]] = defaultdict(list)
        self._variables: dict[tuple[str, str, int], list[Any]] = defaultdict(list)
        self._sets: dict[str, list[Node]] = defaultdict(list)
        self._known: dict[str, frozenset[str]] = {}
        self._by_name: list[tuple[Node, list[int]]] = []
        for block, root in blocks:
            self._collect(block, root, table.block(block).rows)
        for at, numbers in self._by_name:
            renderer, texts = self._renderers[at.block, at.root], self._texts(at, set())
            keys = [renderer.key(number) for number in numbers]
            for key in [key for key in keys if key.rpartition(".")[2] in texts] or keys:
                self._sets[key].append(at)

    def _collect(self, block: str, root: str, rows: list[list[Any]]) -> None:
        renderer = self._renderers[block, root] = Renderer(self.table.block(block), root)
        for row in rows:
            nodes = [row[3], *(guard for guard, _ in row[1])]
            if row[0] in (LET, ADD):
                self._registers[block, root, row[2]] += nodes
            elif row[0] == SET:
                self._sets[renderer.key(row[2])] += [Node(block, root, node) for node in nodes]
            elif row[0] == SET_BY:
                self._by_name.append((Node(block, root, ["all", *nodes]), self.table.block(block).by_name))
            elif row[0] == EACH:
                self._variables[block, root, row[2]] += nodes
                self._collect(block, root, row[5])

    def keys(self, *nodes: Node) -> frozenset[str]:
        """The canonical keys on which the values of expressions depend: those they read, and those that these come from."""
        found: set[str] = set()
        waiting = [path for node in nodes for path in self._paths(node, set())]
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting += [one for node in self._sets.get(path, ()) for one in self._paths(node, set())]
        return frozenset(canonical(self.release, path) for path in found if path[:1] != "$")

    def _paths(self, at: Node, seen: set[tuple[str, int]]) -> list[str]:
        node = at.node
        if not isinstance(node, list) or not node:
            return []
        head, renderer = node[0], self._renderers[at.block, at.root]
        if head == "if" and self.exists is not None:
            known, of = _asked_for(node[1], renderer)
            if of is not None:
                there = self.exists(renderer.key(of)) is known
                return self._paths(at._replace(node=["all", ["has", of], node[2 if there else 3]]), seen)
        if head in ("k", "cls", "get", "has"):
            path = renderer.key(node[1])
            if head == "has" and path.rpartition(".")[0] in _ALWAYS:
                path = path.rpartition(".")[0]
            if head in ("cls", "has") and path in _ALWAYS:
                path = f"{path}.{TARGET}"
            own = [path] if path[:1] != "$" or path in self._sets else []
            return own + [one for part in node[2:] for one in self._paths(at._replace(node=part), seen)]
        if head in ("r", "v"):
            if (head, node[1]) in seen:
                return []
            seen.add((head, node[1]))
            where = self._registers if head == "r" else self._variables
            return [one for part in where[at.block, at.root, node[1]] for one in self._paths(at._replace(node=part), seen)]
        return [one for part in node[1:] for one in self._paths(at._replace(node=part), seen)]

    def _texts(self, at: Node, seen: set[tuple[str, int]]) -> set[str]:
        """The texts from which an expression may be made."""
        node = at.node
        if not isinstance(node, list) or not node:
            return {node} if isinstance(node, str) else set()
        if node[0] in ("r", "v"):
            if (node[0], node[1]) in seen:
                return set()
            seen.add((node[0], node[1]))
            parts = (self._registers if node[0] == "r" else self._variables)[at.block, at.root, node[1]]
        else:
            parts = node[1:]
        return {one for part in parts for one in self._texts(at._replace(node=part), seen)}


def _asked_for(node: Any, renderer: Renderer) -> tuple[bool, int | None]:
    """Whether an expression asks for the existence of a key, or for its absence, and for which."""
    wanted = True
    while isinstance(node, list) and node[0] in ("r", "not"):
        wanted ^= node[0] == "not"
        node = renderer.defined.get(node[1]) if node[0] == "r" else node[1]
    return wanted, node[1] if isinstance(node, list) and node[0] == "has" else None


class _Alone(Start):
    """The start-up of a recipe alone: why each check with words does not hold."""

    def __init__(self, run: Run, table: Checks) -> None:
        super().__init__(run, table)
        #: Name of a check -> every way in which it was come to: the expressions of which each keeps it from holding.
        self.why: dict[str, list[list[Node]]] = defaultdict(list)
        self.blocks: dict[tuple[str, str], None] = {}
        #: Whether the table is another release's: what recipes set is then not all known, and as good as their class has it.
        self._borrowed = checks(run.release.name) is None

    def run_block(self, name: str, root: str, steps: Any) -> None:
        self.blocks[name, root] = None
        super().run_block(name, root, steps)

    def _run(self, rows: list[list[Any]], inner: tuple[int, ...]) -> None:
        for index, row in enumerate(rows):
            self._look(row)
            before = self._name
            super()._run(rows[index : index + 1], inner)  # the place of a refusal does not matter here
            assert self._name == before

    def _look(self, row: list[Any]) -> None:
        against = [part for guard, wanted in row[1] for part in self._against(guard, wanted)]
        if row[0] == REFUSE:
            if worded(row[5]) is not None:
                against += self._against(row[3], True) if row[3] is not True else []
                self.why[row[5]].append(against or [_UNKNOWN])
        elif row[0] == CALL:
            target = self.resolve(self._root, row)
            if target is not None and against:
                self._barred(*target, against)
        elif row[0] == EACH:
            held = truth(self._safe(row[3]))
            if held is False:
                against.append(self._node(row[3]))
            elif held is OPEN and not against:
                against.append(_UNKNOWN)
            for nested in row[5] if against else ():
                if nested[0] == REFUSE and worded(nested[5]) is not None:
                    self.why[nested[5]].append(against)

    def _barred(self, block: str, root: str, against: list[Node]) -> None:
        """Note that a block is not come to."""
        if (block, root) in self.blocks:
            return
        self.blocks[block, root] = None
        for row in self.table.block(block).rows:
            for one in (row, *(row[5] if row[0] == EACH else ())):
                if one[0] == REFUSE and worded(one[5]) is not None:
                    self.why[one[5]].append(against)
                elif one[0] == CALL:
                    target = self.resolve(root, one)
                    if target is not None:
                        self._barred(*target, against)

    def has(self, path: str) -> bool:
        """Whether there is such a key."""
        return self.values.read(path) is not ABSENT

    def _against(self, node: Any, wanted: bool) -> list[Node]:
        """The parts of a condition of which each alone keeps it from being what is wanted."""
        held = truth(self._safe(node))
        if held is wanted or (held is OPEN and not self._borrowed):
            return []
        if isinstance(node, list) and node[0] == "r":
            inner = self._renderer(self._name).kept(node[1])
            return (self._against(inner, wanted) if inner is not None else []) or [self._node(node)]
        if isinstance(node, list) and node[0] == "not":
            return self._against(node[1], not wanted)
        if isinstance(node, list) and node[0] == ("and" if wanted else "or"):
            return [one for part in node[1:] for one in self._against(part, wanted)]
        return [self._node(node)]

    def _renderer(self, block: str) -> Renderer:
        mark = ("renderer", block)
        if mark not in self.table.memo:
            self.table.memo[mark] = Renderer(self.table.block(block))
        return self.table.memo[mark]  # type: ignore[no-any-return]

    def _node(self, node: Any) -> Node:
        return Node(self._name, self._root, node)


def decisive(releases: Iterable[Release] = RELEASES) -> dict[str, frozenset[str]]:
    """Slug of an entry -> keys of which a file must write one before a check of it can hold on any recipe of some releases."""
    found: dict[str, set[str]] = defaultdict(set)
    for release in releases:
        for slug, keys in _of_release(release, table_of(release)):
            found[slug] |= keys
    return {slug: frozenset(keys) for slug, keys in found.items()}


def _of_release(release: Release, table: Checks) -> Iterator[tuple[str, frozenset[str]]]:
    lines: dict[Any, Lines] = {}
    seen: dict[str, set[frozenset[frozenset[str]]]] = defaultdict(set)
    started = [
        _started(release, table, recipe) for name in names(release.name) if (recipe := find(release.name, name)) is not None
    ]
    everything = _everything(release, table, {at for start in started for at in start.blocks})
    for start in started:
        mark = (frozenset(start.blocks), start.class_path("model"), start.class_path("dataset"))
        held = lines.get(mark)
        if held is None:
            held = lines[mark] = Lines(table, release, mark[0], start.has)
        for name, keys in everything.items():
            for way in start.why.get(name, ()):
                seen[name].add(frozenset([keys] if _UNKNOWN in way else [held.keys(node) for node in way]))
            if name not in start.why:
                sections = {key.partition(".")[0] for key in keys if "." in key}
                seen[name].add(frozenset([frozenset(one if one not in _ALWAYS else f"{one}.{TARGET}" for one in sections)]))
    for name, ways in seen.items():
        rule = worded(name)
        assert rule is not None, name
        yield rule.slug, _fewest(ways)


def _fewest(ways: Collection[Collection[frozenset[str]]]) -> frozenset[str]:
    """Few keys that hold, for each of some ways, all of one of its choices."""
    chosen: set[str] = set()
    for choices in sorted(ways, key=lambda way: (len(way), sorted(map(sorted, way)))):
        if not any(choice <= chosen for choice in choices):
            chosen |= min(choices, key=lambda choice: (len(choice - chosen), sorted(choice)))
    return frozenset(chosen)


def _started(release: Release, table: Checks, recipe: Recipe) -> _Alone:
    context = resolve_context(Given(release.name), Given(), ())
    start = _Alone(Run(Settings(context.version, schema(release.name), (), recipe), context), table)
    start.start(whole=True)
    return start


def _everything(release: Release, table: Checks, run: Collection[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Name of a check with words -> all keys that it asks for, its own and those of what guards it."""
    found: dict[str, set[str]] = defaultdict(set)
    for block in table.names():
        for row in (inner for one in table.block(block).rows for inner in (one, *(one[5] if one[0] == EACH else ()))):
            rule = worded(row[5]) if row[0] == REFUSE else None
            if rule is not None:
                for root in {root for name, root in run if name == block} or {rule.section}:
                    nodes = [Node(block, root, node) for node in (row[3], *(guard for guard, _ in row[1]))]
                    found[row[5]] |= Lines(table, release, [(block, root)]).keys(*nodes)
    return {name: frozenset(keys) for name, keys in found.items()}


def read_by_tables(rule: Worded) -> set[str]:
    """What the checks of an entry ask for in any release, and what the start-up works these values out from."""
    found: set[str] = set()
    for release in RELEASES:
        held = checks(release.name)
        for name in held.names() if held is not None else ():
            block = held.block(name)  # type: ignore[union-attr]
            renderer = Renderer(block)
            rows = [inner for row in block.rows for inner in (row, *(row[5] if row[0] == EACH else ()))]
            for row in rows:
                if row[0] == REFUSE and worded(row[5]) is rule:
                    keys = [key for node in (row[3], *(guard for guard, _ in row[1])) for key in keys_of(node, renderer)]
                    found.update(canonical(release, rule.whole(key)) for key in keys)
    found.update(rule.whole(key) for said in rule.checks.values() for key in said.at.split())
    return found | _worked_out_from(found)


def _worked_out_from(keys: set[str]) -> set[str]:
    found: set[str] = set()
    for release in RELEASES:
        held = checks(release.name)
        block = held.block(held.start) if held is not None else None
        for row in block.rows if block is not None else ():
            if row[0] == SET and canonical(release, block.keys[row[2]]) in keys:  # type: ignore[union-attr]
                renderer = Renderer(block)  # type: ignore[arg-type]
                nodes = (row[3], *(guard for guard, _ in row[1]))
                found.update(canonical(release, key) for node in nodes for key in keys_of(node, renderer))
    return found
