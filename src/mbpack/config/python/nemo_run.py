"""Jobs that a program hands to NeMo-Run: the script, its arguments, and how many processes the executor starts."""

from __future__ import annotations

import ast

from msgspec import Struct

from mbpack.config.python.program import Program, follow
from mbpack.config.python.upstream import Upstream
from mbpack.config.python.values import Known, Record, State, Value


class Task(Struct, frozen=True):
    """One job. ``path`` is the program that runs, ``inline`` the text of a shell script; arguments that are not known are None."""

    line: int
    column: int
    end_column: int
    path: str | None
    inline: str | None
    arguments: tuple[str | None, ...]
    nodes: int | None
    gpus: int | None


def tasks_of(text: str, path: str | None) -> list[Task]:
    """The jobs of a program, with the defaults of its arguments.

    Raises:
        PythonError: it is no Python.
    """
    program: Program = follow(text, path)
    machine = program.usual.machine
    return [_task(machine, script, executor, node, state) for script, executor, node, state in machine.tasks]


def _task(machine: Upstream, script: Value, executor: Value | None, node: ast.Call, state: State) -> Task:
    machine.state = state
    held, runner = machine.record(script), machine.record(executor) if executor is not None else None
    assert held is not None
    path, inline = _constant(held, "path"), _constant(held, "inline")
    words: tuple[str | None, ...] = ()
    if "args" in held.fields:
        items = machine.items_of(held.fields["args"].value)
        words = (None,) if items is None else tuple(str(item.value) if isinstance(item, Known) else None for item in items)
    nodes = _number(runner, "nodes", 1)
    per_node = _number(runner, "ntasks_per_node", None) or _number(runner, "gpus_per_node", None)
    gpus = nodes * per_node if nodes is not None and per_node is not None else None
    end = node.end_col_offset if node.end_lineno == node.lineno and node.end_col_offset else node.col_offset + 1
    return Task(
        line=node.lineno,
        column=node.col_offset + 1,
        end_column=end + 1,
        path=path if isinstance(path, str) else None,
        inline=inline if isinstance(inline, str) else None,
        arguments=words,
        nodes=nodes if runner is not None else None,
        gpus=gpus,
    )


def _constant(record: Record, name: str) -> object:
    cell = record.fields.get(name)
    return cell.value.value if cell is not None and isinstance(cell.value, Known) else None


def _number(record: Record | None, name: str, default: int | None) -> int | None:
    if record is None or record.opaque:
        return None
    if name not in record.fields:
        return default
    value = _constant(record, name)
    return value if type(value) is int and value > 0 else None
