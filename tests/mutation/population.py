"""All mutants of mbpack's facts and rules, and a stratified sample of them.

Only code that decides is mutated. Left out, because no test should pin it: wording (f-strings, `why`, the message of a
finding, the title of a fix, choices between two texts), annotations, decorators and class options, and imports.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from .operators import operators

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "mbpack"
ROOMS = ("facts", "rules")
_TEXT_KEYWORDS = ("why", "caret", "note", "reason", "because", "title")
#: Operators that can meet what is no expression of theirs: stars that unpack or end positional parameters, `:=`.
_MAY_NOT_COMPILE = ("AddNot", "Mul_FloorDiv", "Pow_Mul")
_Place = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the operator, which of its occurrences, and the place (line from 1, column from 0)."""

    module: str  # such as "rules/packing/batch"
    operator: str
    occurrence: int
    place: _Place
    statement: _Place  # first and last line of the statement (of a compound statement: its head)

    @property
    def path(self) -> Path:
        return SOURCES / f"{self.module}.py"

    @property
    def dotted(self) -> str:
        return f"mbpack.{self.module.replace('/', '.')}"

    def source(self) -> str:
        """The mutated text of the module."""
        return _mutated(self)

    def change(self) -> tuple[str, str]:
        """The lines that differ, before and after, in short."""
        return changed_lines(self.path.read_text(), self.source())


@lru_cache(maxsize=2000)
def _mutated(mutant: Mutant) -> str:
    code = mutate_code(mutant.path.read_text(), operators()[mutant.operator], mutant.occurrence)
    assert code is not None, mutant
    return code


def changed_lines(old: str, new: str) -> tuple[str, str]:
    """The differing middle of two texts, as whole lines on one line each."""
    a, b = old.splitlines(), new.splitlines()
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    before, after = (" ".join(" ".join(lines[start : len(lines) - end]).split()) for lines in (a, b))
    return before, _readable(after)


def _readable(text: str) -> str:
    for module in ("mbpack.facts.releases", "mbpack.rules.base"):
        text = text.replace(f"__import__({module!r}, None, None, ['*']).", "")
    return text


def modules() -> list[str]:
    """The modules that are mutated."""
    found = (path for room in ROOMS for path in sorted((SOURCES / room).rglob("*.py")) if path.stem != "__init__")
    return [path.relative_to(SOURCES).with_suffix("").as_posix() for path in found]


def mutants_of(module: str) -> list[Mutant]:
    """Every mutant of a module."""
    text = (SOURCES / f"{module}.py").read_text()
    tree = ast.parse(text)
    excluded, statements = list(_excluded(tree)), list(_statements(tree))
    nodes = list(ast_nodes(get_ast(text)))
    found: list[Mutant] = []
    for name, operator in operators().items():
        if module == "facts/releases" and name == "ReleaseBoundary":
            continue  # the releases are defined there
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(places):
            if not any(first <= start and end <= last for first, last in excluded):
                found.append(Mutant(module, name, occurrence, start, _statement_at(statements, start[0])))
    found = [m for m in found if not m.operator.endswith(_MAY_NOT_COMPILE) or _compiles(m)]
    return sorted(found, key=lambda m: (m.place, m.operator, m.occurrence))


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.source(), mutant.module, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def population() -> dict[str, list[Mutant]]:
    """Every mutant, by module."""
    return {module: mutants_of(module) for module in modules()}


def sample(everything: dict[str, list[Mutant]], size: int, seed: int) -> list[Mutant]:
    """About ``size`` mutants, from each module in proportion to its own number, at least one."""
    chance = random.Random(seed)
    total = sum(map(len, everything.values()))
    chosen: list[Mutant] = []
    for module in sorted(everything):
        own = everything[module]
        if own:
            chosen += chance.sample(own, min(len(own), max(1, round(size * len(own) / total))))
    chance.shuffle(chosen)  # so that the first answers already speak for the whole
    return chosen


def _span(node: ast.expr) -> tuple[_Place, _Place]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _excluded(tree: ast.Module) -> Iterator[tuple[_Place, _Place]]:
    for node in ast.walk(tree):
        for part in _wording(node):
            yield _span(part)


def _wording(node: ast.AST) -> Iterator[ast.expr]:
    """The parts of a node that no test should pin."""
    if (
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.IfExp) and (_is_prose(node.body) or _is_prose(node.orelse)))
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and (_is_prose(node.left) or _is_prose(node.right)))
    ):
        yield node
    elif isinstance(node, ast.keyword) and node.arg in _TEXT_KEYWORDS:
        yield node.value
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        text_at = {"finding": 3, "Fix": 0, "Derived": 1, "Share": 1}.get(name)
        if text_at is not None and len(node.args) > text_at:
            yield node.args[text_at]
    elif (isinstance(node, ast.arg) and node.annotation is not None) or isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield from node.decorator_list
        if isinstance(node, ast.ClassDef):
            yield from (keyword.value for keyword in node.keywords)
        elif node.returns is not None:
            yield node.returns


def _is_prose(node: ast.expr) -> bool:
    """Whether an expression is words for people rather than a name for programs."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and " " in node.value
    return isinstance(node, ast.JoinedStr)


def _statements(tree: ast.Module) -> Iterator[_Place]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
            yield node.lineno, max(node.lineno, last or node.lineno)
        elif isinstance(node, ast.ExceptHandler):
            yield node.lineno, node.lineno


def _statement_at(statements: list[_Place], line: int) -> _Place:
    around = [(first, last) for first, last in statements if first <= line <= last]
    return min(around, key=lambda place: place[1] - place[0]) if around else (line, line)
