"""Configurations that a Python program makes: the file is parsed and followed, never executed.

A program is followed several times. Once for what is certain: values that somebody may give from outside are unknown
there. Once with the defaults of its arguments. And once for each way of the conditions that nobody can decide, so that
a finding can say under which one it holds.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from mbpack.config.python.commandline import options_of
from mbpack.config.python.machine import MAX_STEPS, Base, Command, Condition, Ended, OutOfSteps, Shown
from mbpack.config.python.upstream import Upstream
from mbpack.config.python.values import NONE, Class, Function, Known, Record, Ref, Symbol, Unknown, Value
from mbpack.facts.sections import SECTION_NAMES

#: Characters of a program that are read at most.
MAX_SOURCE: Final = 1 << 20
#: Conditions whose ways are followed one by one, and times a program is followed at most.
MAX_CONDITIONS, MAX_RUNS = 4, 10
#: Files of the project that are followed from one program.
MAX_MODULES: Final = 20
#: Steps that the statements of one such file may take.
MAX_MODULE_STEPS: Final = MAX_STEPS // 6


class PythonError(ValueError):
    """A file that cannot be read as Python; the message is one line, ``line`` and ``column`` (from 1) say where."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class World(Struct, frozen=True):
    """One way to follow a program. ``label`` says which, in words; "" for what is certain."""

    label: str
    machine: Upstream
    defaults: bool = False

    def shown(self) -> Iterator[Shown]:
        """The configurations it makes, in order."""
        yield from self.machine.shown


class Program(Struct):
    """A followed program: the certain world first, then that of the defaults (the same where there are none), then others."""

    path: str | None
    source: str
    worlds: list[World]

    @property
    def certain(self) -> World:
        """What holds whatever is given from outside."""
        return self.worlds[0]

    @property
    def usual(self) -> World:
        """What holds when nothing is given from outside."""
        return self.worlds[1]

    @property
    def notes(self) -> Mapping[str, int]:
        """Calls that could not be followed, with their lines."""
        return self.usual.machine.notes


Forced = Mapping[str, Value]


def parse_source(source: str) -> ast.Module:
    """The syntax tree of a program.

    Raises:
        PythonError: it is no Python, or too long.
    """
    if len(source) > MAX_SOURCE:
        raise PythonError(f"more than {MAX_SOURCE >> 20} MB: this is no training script")
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise PythonError(f"not valid Python: {error.msg}", error.lineno or 1, error.offset or 1) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise PythonError(f"cannot be read as Python: {' '.join(str(error).split())[:100]}") from None


def follow(
    source: str,
    path: str | None = None,
    base: Base | None = None,
    tree: ast.Module | None = None,
    command: Command | None = None,
) -> Program:
    """Follow a program in all its worlds; ``command`` is the one that starts it, where it is known.

    Raises:
        PythonError: it is no Python.
    """
    tree = tree if tree is not None else parse_source(source)
    makers: frozenset[str] = frozenset()

    def run(defaults: bool, forced: Forced | None = None) -> Upstream:
        return _run(tree, path, base, defaults, forced or {}, command, makers)

    certain = run(False)
    usual = run(True) if certain.used_defaults else certain
    makers = frozenset(certain.asked_makers | usual.asked_makers)
    if makers:
        without = certain, usual
        certain = run(False)
        usual = run(True) if certain.used_defaults else certain
        if not (_says_something(certain) or _says_something(usual)):
            certain, usual = without  # what comes from elsewhere goes on as it came: nothing can be read
            makers = frozenset()
    worlds = [World("", certain), World(_label(certain.used_defaults), usual, True)]
    tried, steps = 2, certain.steps + usual.steps
    for condition in [held for held in certain.conditions.values() if held.matters][:MAX_CONDITIONS]:
        for label, forced in _flips(condition, usual):
            if tried < MAX_RUNS and steps < MAX_STEPS:
                worlds.append(World(label, run(True, forced), True))
                tried, steps = tried + 1, steps + worlds[-1].machine.steps
    return Program(path, source, worlds)


def _says_something(reader: Upstream) -> bool:
    """Whether the program sets anything on a configuration that it hands over, or names a recipe."""
    held = (shown.state.heap.get(shown.config) for shown in reader.shown)
    return any(record is not None and (record.fields or record.overlays or record.recipe) for record in held)


def _label(defaults: Mapping[str, str]) -> str:
    """Which defaults count, in words."""
    shown = [f"no {name} given" if name == "KEY=VALUE" else f"{name} {value}" for name, value in defaults.items()]
    return f"with the default {shown[0]}" if len(shown) == 1 else "with the defaults of what may be given"


def _flips(condition: Condition, usual: Upstream) -> Iterator[tuple[str, Forced]]:
    """The ways to look at a condition that is not certain: both where it is open, the other one where defaults decide it."""
    decided = usual.decided.get(condition.text)
    line = f" (line {condition.line})" if condition.line else ""
    for way in (True, False):
        if decided is way:
            continue
        forced = _force(condition.node, way, usual)
        if decided is not None and not _is_flag(condition.node, way):
            continue  # the values it compares would contradict it
        shown = condition.text if len(condition.text) <= 60 else condition.text[:57] + "..."
        yield f"where `{shown}` is {'true' if way else 'false'}{line}", forced


def _is_flag(node: ast.expr, way: bool) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _is_flag(node.operand, not way)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return True
    return way and _equality(node) is not None


def _equality(node: ast.expr) -> tuple[ast.expr, ast.Constant] | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        left, right = node.left, node.comparators[0]
        if isinstance(right, ast.Constant) and isinstance(left, (ast.Name, ast.Attribute)):
            return left, right
    return None


def _force(node: ast.expr, way: bool, usual: Upstream) -> Forced:
    """Values of expressions under which a condition is true or false."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _force(node.operand, not way, usual)
    equality = _equality(node)
    if equality is not None and way:
        return {ast.unparse(equality[0]): Known(equality[1].value)}
    text = ast.unparse(node)
    held = usual.tested.get(text)
    flag = isinstance(held, Known) and isinstance(held.value, bool)
    if flag or not isinstance(node, (ast.Name, ast.Attribute)):
        return {text: Known(way)}
    return {text: Unknown("it may be given", truth=way)}


# ---------------------------------------------------------------------- one world


class Reader(Upstream):
    """Follows one file, and the files of the project that it imports from."""

    def __init__(
        self, tree: ast.Module, base: Base | None, defaults: bool, forced: Forced, path: str | None, command: Command | None
    ) -> None:
        super().__init__(base, defaults, forced, path or "", command)
        self.tree = tree
        self.modules: dict[str, int | None] = {}

    def start(self) -> None:
        """Follow the module from its first statement, then the functions that nobody calls."""
        self.frame = self.new_frame(None)
        try:
            self.block(self.tree.body)
        except OutOfSteps:
            self._give_up()
            return
        if any(shown.launched for shown in self.shown):
            return
        try:
            self._made_at_the_top()
            self._entries()
            self.shown = self.shown or list(self.away.values())
        except OutOfSteps:
            self._give_up()

    def _give_up(self) -> None:
        self.notes["the program is too long to be followed"] = 1
        self.shown = []

    def _made_at_the_top(self) -> None:
        """Configurations that the module's own statements make and keep under a name."""
        for name, cell in self.state.frames[self.frame].items():
            record = self.record(cell.value)
            if record is not None and record.kind == "config" and isinstance(cell.value, Ref):
                node = cell.place.node if cell.place.node is not None else ast.Constant(0, lineno=1)
                if not any(shown.config == cell.value.id for shown in self.shown):
                    self.show(name, cell.value, node, False)

    def _entries(self) -> None:
        """Functions of the file that nothing calls: what they return, or change in what they are given."""
        top = self.state.copy()
        frame = self.frame
        helpers: list[tuple[ast.AST, list[Shown]]] = []  # what they are given is somebody else's
        for statement in self.tree.body:
            nodes = statement.body if isinstance(statement, ast.ClassDef) else [statement]
            for node in nodes:
                if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node in self.called:
                    continue
                self.state, self.frame, self.module = top.copy(), frame, "__main__"
                before = len(self.shown)
                self._entry(node, statement if isinstance(statement, ast.ClassDef) else None)
                self.called.discard(node)
                if self.given:
                    helpers.append((node, self.shown[before:]))
        called = [shown for node, entries in helpers if node in self.called for shown in entries]
        self.shown = [shown for shown in self.shown if shown not in called]
        if any(shown.launched for shown in self.shown):
            self.shown = [shown for shown in self.shown if shown.launched]  # the others were helpers

    def _entry(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.ClassDef | None) -> None:
        from mbpack.config.python.calls import Arguments

        function = Function(node, self.frame, "__main__", None, self._entry_defaults(node))
        self.given: list[Ref] = []
        before = len(self.shown)
        try:
            value = self.enter(function, Arguments(values=[NONE] if owner is not None else [], open=not self.defaults))
        except Ended:
            value = NONE
        if len(self.shown) > before:
            return
        if isinstance(value, Ref):
            self.show(node.name, value, node, False)
        elif not isinstance(value, Known) or value.value is not None:
            return
        for given in self.given:
            record = self.record(given)
            if record is not None and not any(shown.config == given.id for shown in self.shown):
                written = [name for name, cell in record.fields.items() if self._sets(cell.value)]
                known = sum(name in SECTION_NAMES for name in written)
                if known and 2 * known > len(written):  # else it is another program's configuration
                    self.show(node.name, given, node, False)

    def _sets(self, value: Value) -> bool:
        record = self.record(value)
        return record is None or any(cell.place.time for cell in record.fields.values())

    def _entry_defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[tuple[str, Value], ...]:
        """Defaults of parameters, those of click's and typer's options among them."""
        found = dict(self.defaults_of(node))
        for name, default in options_of(node).items():
            found[name] = self.eval(default)
        return tuple((name, self.default(name, value)) for name, value in found.items())

    def parameter(self, function: Function, parameter: ast.arg) -> Value:
        """A parameter that nobody gives: a configuration, where it is called or annotated as one."""
        annotated = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
        if "ConfigContainer" in annotated or (not annotated and parameter.arg in ("cfg", "config")):
            given = self.new(Record("config", recipe=None))
            if hasattr(self, "given"):
                self.given.append(given)
            return given
        return Unknown(f"the parameter {parameter.arg}")

    # ------------------------------------------------------------------ modules of the project

    def imported(self, module: str, level: int) -> Value:
        """``import module``: modules of the project are asked for their names."""
        return Symbol(module)

    def imported_name(self, module: str, level: int, name: str) -> Value:
        """``from module import name``, from a file of the project where there is one."""
        frame = self._module(module, level)
        if frame is None:
            return Symbol(f"{module}.{name}" if module else name)
        cell = self.state.frames.get(frame, {}).get(name)
        if cell is not None:
            return cell.value
        inner = self._module(f"{module}.{name}" if module else name, level)
        return Symbol(f"{module}.{name}") if inner is None else Unknown("a module of the project")

    def import_all(self, module: str, level: int) -> None:
        """``from module import *``."""
        frame = self._module(module, level)
        if frame is not None:
            for name, cell in list(self.state.frames[frame].items()):
                self.bind(name, cell.value)

    def _module(self, module: str, level: int) -> int | None:
        """The frame of a module of the project, followed once; None where it is none."""
        if not self.path or (level == 0 and module.partition(".")[0] in ("megatron", "torch", "os", "sys", "typing")):
            return None
        found = next((place for place in self._places(module, level) if os.path.isfile(place)), None)
        if found is None:
            return None
        found = os.path.abspath(found)
        if found not in self.modules and len(self.modules) < MAX_MODULES and found != os.path.abspath(self.path):
            self.modules[found] = None  # while it is followed, and where it cannot be
            self.modules[found] = self._follow(found, module)
        return self.modules.get(found)

    def _places(self, module: str, level: int) -> Iterator[str]:
        folder = os.path.dirname(os.path.abspath(self.path))
        parts = module.split(".") if module else []
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            roots = [folder]
        else:
            roots = [folder]
            for _ in range(4):
                folder = os.path.dirname(folder)
                roots += [folder, os.path.join(folder, "src")]
        for root in roots:
            yield os.path.join(root, *parts) + ".py"
            yield os.path.join(root, *parts, "__init__.py")

    def _follow(self, path: str, name: str) -> int | None:
        try:
            with open(path, "rb") as stream:
                data = stream.read(MAX_SOURCE)
            tree = parse_source(data.decode("utf-8", "replace"))
        except (OSError, PythonError):
            return None
        before = (self.frame, self.module, self.path, self.limit, self.depth, self.loops, len(self.returns), len(self.entered))
        frame = self.new_frame(None)
        self.frame, self.module, self.path = frame, name or "project", path
        self.limit, self.loops = min(self.limit, self.steps + MAX_MODULE_STEPS), []
        try:
            self.block(tree.body)
            return frame
        except OutOfSteps:
            if self.steps > before[3]:
                raise
            return None  # from now on it is somebody else's
        finally:
            self.frame, self.module, self.path, self.limit, self.depth, self.loops, returns, entered = before
            del self.returns[returns:], self.entered[entered:]


def _run(
    tree: ast.Module,
    path: str | None,
    base: Base | None,
    defaults: bool,
    forced: Forced,
    command: Command | None,
    makers: frozenset[str],
) -> Upstream:
    reader = Reader(tree, base, defaults, forced, path, command)
    reader.makers = makers
    try:
        reader.start()
    except (OutOfSteps, RecursionError):
        reader.notes["the program is nested too deep to be followed"] = 1
        reader.shown = []
    return reader


__all__ = ["Callable", "Class", "Program", "PythonError", "World", "follow", "parse_source"]
