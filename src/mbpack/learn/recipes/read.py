"""What one recipe function returns, section by section, as far as that can be read."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from mbpack.config.python.calls import Arguments
from mbpack.config.python.machine import Ended, OutOfSteps
from mbpack.config.python.values import Function, Ref, Value
from mbpack.learn.lists.fields import Class, Reader
from mbpack.learn.lists.tree import Defined
from mbpack.learn.recipes.encode import Encoder, NotRead, default, same
from mbpack.learn.recipes.machine import Machine

CONTAINER = "megatron.bridge.training.config.ConfigContainer"
#: Of a function that is named like a recipe and returns something else.
NO_CONTAINER = "it returns no whole configuration"
#: Sections that are null until a recipe puts an object there.
_MADE = ("peft", "mixed_precision", "comm_overlap")


class Read(Struct):
    """What was read of one recipe.

    ``values``: path -> value, as the recipe facts hold them. ``open``: paths whose value is not known; below an open
    path nothing is known but what stands in ``values``. ``why``: why nothing at all could be read, "" where something was.
    """

    module: str
    values: dict[str, Any] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)  # section -> import path of its class
    hf_id: str | None = None
    why: str = ""


def read_recipe(reader: Reader, found: Defined) -> Read:
    """Follow one recipe function."""
    machine = Machine(reader)
    read = Read(found.module.name)
    try:
        function = machine.meant(found)
        if not isinstance(function, Function):
            return _nothing(read, "its function is decorated")
        machine.frame = machine.frame_of(found.module)
        returned = machine.enter(function, Arguments())
        container = reader.at(CONTAINER)
        record = machine.record(returned)
        if record is not None and record.kind == "object" and record.cls is not None:
            return _nothing(read, NO_CONTAINER)
        if container is None or record is None or record.cls != container.path or record.opaque:
            return _nothing(read, "what it returns is not known")
        read.hf_id = machine.hf_id
        _flatten(machine, read, container, returned)
    except OutOfSteps:
        return _nothing(read, "it is too long to be followed")
    except Ended:
        return _nothing(read, "it stops with an error")
    except RecursionError:
        return _nothing(read, "it is nested too deep")
    return read


def _nothing(read: Read, why: str) -> Read:
    return Read(read.module, why=why)


def _flatten(machine: Machine, read: Read, container: Class, config: Value) -> None:
    """Every section: whole where it is a value, field by field where it is an object."""
    encoder, record = Encoder(machine), machine.record(config)
    assert record is not None
    for name, entry in container.fields.items():
        held = record.fields[name].value if name in record.fields else machine.default_of(container, name)
        own = machine.record(held)
        cls = encoder.is_config(held)
        if cls is not None:
            read.classes[name] = cls.path
            if name in _MADE or default(entry) is None:
                read.values[f"{name}._target_"] = cls.path
            _below(encoder, read, name, held, cls)
        elif own is not None and own.kind in ("object", "part"):
            read.open.append(name)
            _parts(encoder, read, name, held)
        else:
            _plain(encoder, read, name, held, default(entry))


def _plain(encoder: Encoder, read: Read, path: str, held: Value, usual: Any) -> None:
    try:
        encoded = encoder.value(held)
    except NotRead:
        read.open.append(path)
        return
    if not same(encoded, usual):
        read.values[path] = encoded


def _below(encoder: Encoder, read: Read, path: str, held: Value, cls: Class) -> None:
    """The fields of an object whose class is known."""
    record = encoder.machine.record(held)
    assert record is not None
    if record.opaque:
        read.open.append(path)
    for name, value in encoder.fields(record, cls):
        own = encoder.is_config(value)
        if own is not None:
            read.values[f"{path}.{name}._target_"] = own.path
            _below(encoder, read, f"{path}.{name}", value, own)
        else:
            _plain(encoder, read, f"{path}.{name}", value, default(cls.fields[name]))


def _parts(encoder: Encoder, read: Read, path: str, held: Value) -> None:
    """What a recipe set on an object of which nothing else is known."""
    record = encoder.machine.record(held)
    assert record is not None
    for name, value in encoder.machine.written(record):
        own, cls = encoder.machine.record(value), encoder.is_config(value)
        if cls is not None:
            read.values[f"{path}.{name}._target_"] = cls.path
            _below(encoder, read, f"{path}.{name}", value, cls)
        elif own is not None and own.kind == "part" and isinstance(value, Ref):
            _parts(encoder, read, f"{path}.{name}", value)
        else:
            try:
                read.values[f"{path}.{name}"] = encoder.value(value)
            except NotRead:
                read.open.append(f"{path}.{name}")


__all__ = ["Read", "read_recipe"]
