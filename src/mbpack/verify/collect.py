"""The tests of one file, as pytest would collect them, read from the source: nothing is imported or run.

Counts are exact where classes, functions and parameters are written out. Where they are not (parameters computed at run
time, base classes from elsewhere, `pytest_generate_tests`), the count is a lower bound and says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from mbpack.verify.keywords import Names, matcher, names_of
from mbpack.verify.values import Scope, Value, assigned, combinations, elements

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_UNITTEST = {"TestCase", "IsolatedAsyncioTestCase"}
_HARMLESS = {"object", "Protocol", "Generic", "ABC", "NamedTuple", "Enum", "Exception"} | _UNITTEST
_NO_NAMES = Scope()
_CONSTRUCTORS = ("__init__", "__new__")


class Test(Struct, frozen=True):
    """One test: its node id below the file, and every name `-k` looks at."""

    __test__ = False

    id: str
    names: Names
    exact: bool = True  # whether it is known to be one test


class TestFile(Struct, frozen=True):
    """The tests of a file; ``problem`` says why they cannot be read."""

    __test__ = False

    tests: tuple[Test, ...] = ()
    exact: bool = True
    problem: str | None = None

    def select(self, keyword: str) -> list[Test]:
        """The tests a `-k` expression selects.

        Raises:
            KeywordError: the expression cannot be read.
        """
        wanted = matcher(keyword)
        return [test for test in self.tests if wanted(test.names)]


def collect(path: Path, root: Path | None = None) -> TestFile:
    """Collect the tests of a file; fixtures of the `conftest.py` files between it and the root count too."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return TestFile(problem="not valid Python" + (f" (line {line})" if line else ""))
    except (RecursionError, MemoryError):
        return TestFile(problem="nested too deeply to be read")
    except OSError as error:
        return TestFile(problem=f"cannot be read: {error.strerror or error}")
    conftests = [found for found in map(_parsed, _conftests(path, root)) if found is not None]
    return _Module(path.name, tree, conftests).collect()


def _conftests(path: Path, root: Path | None) -> Iterator[Path]:
    for folder in path.parents:
        yield folder / "conftest.py"
        if root is None or folder == root:
            return


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Fixture(Struct, frozen=True):
    ids: tuple[str, ...]  # one per parameter; a fixture without parameters has none
    needs: tuple[str, ...]
    autouse: bool
    exact: bool


class _Around(Struct):
    """What surrounds a function: class names, markers and parameters of the classes, names, fixtures."""

    names: tuple[str, ...]
    scope: Scope
    fixtures: dict[str, _Fixture]
    marks: tuple[str, ...] = ()
    parameters: tuple[tuple[str, ...], ...] = ()
    given: frozenset[str] = frozenset()  # argument names that a parametrisation of the class sets
    exact: bool = True


class _Module(Struct):
    name: str
    tree: ast.Module
    conftests: list[ast.Module]
    exact: bool = True
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)

    def collect(self) -> TestFile:
        body = list(_statements(self.tree.body))
        scope = Scope(assigned(body))
        fixtures: dict[str, _Fixture] = {}
        for module in [*reversed(self.conftests), self.tree]:
            statements = list(_statements(module.body))
            fixtures.update(_fixtures(statements, Scope(assigned(statements))))
            self.exact &= not any(getattr(node, "name", "") == "pytest_generate_tests" for node in statements)
        self.classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        around = _Around((self.name,), scope, fixtures)
        _add_pytestmark(around, body, scope)
        tests = list(self._members(body, around))
        self.exact &= not any(_looks_like_test(name) for name in _imported(body))
        return TestFile(tuple(tests), self.exact and all(test.exact for test in tests))

    def _members(self, body: Sequence[ast.stmt], around: _Around, unittest: bool = False) -> Iterator[Test]:
        last = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
        for name, node in last.items():
            if isinstance(node, ast.ClassDef):
                if not unittest:
                    yield from self._class(node, around)
            elif name.startswith("test") and _fixture_call(node) is None:
                yield from _function(node, around, unittest)

    def _class(self, node: ast.ClassDef, around: _Around) -> Iterator[Test]:
        bodies, known = self._bases(node, set())
        unittest = known & _UNITTEST != set()
        merged = [statement for body in bodies for statement in body]
        if not (unittest or node.name.startswith("Test")):
            return
        scope = around.scope.inside(merged)
        switch = scope.names.get("__test__")
        if isinstance(switch, ast.Constant) and not switch.value:
            return
        if not unittest and any(getattr(statement, "name", "") in _CONSTRUCTORS for statement in merged):
            return
        inner = _Around(
            (*around.names, node.name),
            scope,
            {**around.fixtures, **_fixtures(merged, scope)},
            around.marks,
            (),
            around.given,
            around.exact and known <= _HARMLESS,
        )
        _add_marks(inner, node.decorator_list, scope)
        _add_pytestmark(inner, merged, scope)
        inner.parameters += around.parameters
        yield from self._members(merged, inner, unittest)

    def _bases(self, node: ast.ClassDef, seen: set[str]) -> tuple[list[list[ast.stmt]], set[str]]:
        """The bodies of a class and its bases in this file, the furthest base first, and the other bases' names."""
        bodies: list[list[ast.stmt]] = []
        outside: set[str] = set()
        for base in reversed(node.bases):
            name = _last_name(base)
            if name in self.classes and name not in seen and name != node.name:
                inherited, further = self._bases(self.classes[name], seen | {node.name})
                bodies += inherited
                outside |= further
            else:
                outside.add(name)
        return [*bodies, list(_statements(node.body))], outside


def _function(node: _Function, around: _Around, unittest: bool) -> Iterator[Test]:
    own = _Around(around.names, around.scope, around.fixtures, around.marks, (), around.given, around.exact)
    if not unittest:
        _add_marks(own, node.decorator_list, around.scope)
        own.parameters += around.parameters  # the nearest come first, as in pytest's ids
        _add_fixtures(own, node)
    names = names_of([*around.names, node.name, *own.marks])
    where = "::".join([*around.names[1:], node.name])
    if not own.parameters:
        yield Test(where, names, own.exact)
        return
    for variant in combinations(own.parameters):
        full = f"{node.name}[{variant}]"
        yield Test(f"{where}[{variant}]", names | {full.lower()}, own.exact)


def _add_marks(around: _Around, decorators: Iterable[ast.expr], scope: Scope) -> None:
    for decorator in reversed(list(decorators)):
        mark = _mark(decorator)
        if mark is None:
            continue
        around.marks = (*around.marks, mark)
        if mark != "parametrize":
            continue
        found = _parameters(decorator, scope)
        if found is None:
            around.exact = False
        else:
            around.given |= found[0]
            around.parameters = (*around.parameters, found[1])


def _add_pytestmark(around: _Around, body: Sequence[ast.stmt], scope: Scope) -> None:
    value = assigned(body).get("pytestmark")
    if value is not None:
        _add_marks(around, value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value], scope)


def _add_fixtures(around: _Around, node: _Function) -> None:
    """Parameters of the fixtures the function uses, directly or through others."""
    arguments = node.args
    waiting = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    waiting += [name for name, fixture in around.fixtures.items() if fixture.autouse]
    seen = set(around.given)
    while waiting:
        name = waiting.pop()
        fixture = around.fixtures.get(name)
        if fixture is None or name in seen:
            continue
        seen.add(name)
        waiting += fixture.needs
        around.exact &= fixture.exact
        if fixture.ids:
            around.parameters = (*around.parameters, fixture.ids)


def _fixtures(body: Iterable[ast.stmt], scope: Scope) -> dict[str, _Fixture]:
    found = {}
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        decorator = _fixture_call(node)
        if decorator is None:
            continue
        options = {word.arg: word.value for word in decorator.keywords} if isinstance(decorator, ast.Call) else {}
        values = elements(options["params"], scope) if "params" in options else []
        name = options.get("name")
        autouse = options.get("autouse")
        found[name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else node.name] = _Fixture(
            tuple(_ids(values or [], [node.name], options.get("ids"), scope)),
            tuple(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)),
            isinstance(autouse, ast.Constant) and bool(autouse.value),
            values is not None,
        )
    return found


def _parameters(decorator: ast.expr, scope: Scope) -> tuple[frozenset[str], tuple[str, ...]] | None:
    """The argument names a `parametrize` sets and the ids of its values; None where they cannot be counted."""
    if not isinstance(decorator, ast.Call):
        return None
    options = {word.arg: word.value for word in decorator.keywords}
    places = dict(zip(("argnames", "argvalues"), decorator.args, strict=False))
    names_node, values_node = places.get("argnames", options.get("argnames")), places.get("argvalues", options.get("argvalues"))
    if isinstance(names_node, ast.Constant) and isinstance(names_node.value, str):
        names = [name.strip() for name in names_node.value.split(",") if name.strip()]
    else:
        listed = elements(names_node, scope)
        if listed is None:
            return None
        names = [str(part.value) if isinstance(part, ast.Constant) else "argument" for part in listed]
    values = elements(values_node, scope)
    if values is None:
        return None
    # pytest makes one skipped test of an empty list of parameters
    return frozenset(names), tuple(_ids(values, names, options.get("ids"), scope)) or ("NOTSET",)


def _ids(values: Sequence[Value], names: Sequence[str], ids: ast.expr | None, scope: Scope) -> Iterator[str]:
    given = elements(ids, scope) or []
    for index, value in enumerate(values):
        own = _own_id(value) or (_text(given[index], scope) if index < len(given) else None)
        if own is not None:
            yield own
            continue
        if isinstance(value, ast.Call) and _last_name(value.func) == "param":
            parts: Sequence[Value] = value.args
        elif len(names) > 1:
            parts = elements(value, scope) or [None] * len(names)
        else:
            parts = [value]
        texts = [_text(part, scope) for part in parts]
        yield "-".join(f"{name}{index}" if text is None else text for name, text in zip(names, texts, strict=False))


def _own_id(value: Value) -> str | None:
    if isinstance(value, ast.Call) and _last_name(value.func) == "param":
        return next((_text(word.value) for word in value.keywords if word.arg == "id"), None)
    return None


def _text(value: Value, scope: Scope = _NO_NAMES) -> str | None:
    """A value as pytest writes it into an id: texts, numbers, truth values, None, and names of classes and functions."""
    if isinstance(value, ast.Name):
        assigned_value = scope.names.get(value.id)
        return value.id if assigned_value is None else _text(assigned_value)
    if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, (str, int, float, bool))):
        return str(value.value)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = _text(value.operand)
        return None if inner is None else f"-{inner}"
    return None


def _mark(decorator: ast.expr) -> str | None:
    """The name of a `pytest.mark` decorator."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(target, ast.Attribute) and _last_name(target.value) == "mark":
        return target.attr
    return None


def _fixture_call(node: _Function) -> ast.expr | None:
    for decorator in node.decorator_list:
        if _last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) == "fixture":
            return decorator
    return None


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements with those inside `if`, `try` and `with` blocks, where tests are defined under a condition."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                yield from _statements(getattr(node, part, []))


def _imported(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _looks_like_test(name: str) -> bool:
    return name == "*" or name.startswith(("test_", "Test"))
