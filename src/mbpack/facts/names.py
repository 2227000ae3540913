"""What a ``_target_`` path leads to in a release: whether it exists, can be called, and what calling it takes.

The data are harvested from the installed packages (`tools/names.py`) and lie in `data/names-<release>.tsv`, one module a line,
found by a byte search so that only the modules asked for are parsed:

    <module> TAB classes TAB functions TAB enumerations TAB imported dataclasses

each column words of the form ``name`` or ``name:details``. Details of a class or function are the arguments it cannot do without,
then behind ``;`` the others (``*``: any, or not listed), then ``!`` for a class that is abstract; of an enumeration its members
as ``name=value``; of an imported dataclass its own path, where the name alone does not tell. Names that a module holds beside these
are in the line ``.other`` for all modules together, and modules that could not be read in ``.missing``: about those nothing is
known. A release without the file (a development tree) knows nothing.
"""

from __future__ import annotations

import functools
import os
from typing import Final, NamedTuple

from mbpack.facts.schema import DATA, read_data

PACKAGES: Final = ("megatron.bridge", "megatron.core", "megatron.training")


class Named(NamedTuple):
    """Something that a path leads to.

    kind      "class", "function", "enum" (the class), "member" (of an enumeration), "module", "dtype" or "value".
    path      where it is defined.
    required  arguments it cannot do without, in order.
    others    further arguments; None where any is taken or they are not listed.
    members   names and values of an enumeration.
    """

    kind: str
    path: str
    required: tuple[str, ...] = ()
    others: tuple[str, ...] | None = None
    abstract: bool = False
    members: tuple[tuple[str, int | None], ...] = ()

    @property
    def callable(self) -> bool:
        return self.kind in ("class", "function", "enum")


#: Certainly nothing.
NOWHERE: Final = Named("nowhere", "")


class Names:
    """The names of one release; `known` is False where they were not harvested."""

    def __init__(self, release: str) -> None:
        name = f"names-{release}.tsv"
        self.known = os.path.exists(os.path.join(DATA, name))
        self._data = b"\n" + read_data(name) if self.known else b"\n"
        self._found: dict[str, Named | None] = {}
        self._listed: dict[str, frozenset[str]] = {}

    def locate(self, target: str) -> Named | None:
        """What a dotted path leads to: NOWHERE where it certainly leads to nothing, None where that is not known."""
        if not self.known:
            return None
        if target not in self._found:
            if len(self._found) > 4096:
                self._found.clear()
            self._found[target] = self._torch(target) if target.startswith("torch.") else self._ours(target)
        return self._found[target]

    def allows(self, target: str) -> bool | None:
        """Whether the release instantiates a path at all; None where the names were not harvested."""
        if not self.known or not self.listed("allow.prefixes"):
            return True if self.known else None
        if target in self.listed("allow.refused"):
            return False
        exact = target in self.listed("allow.exact")
        if self.listed("allow.private") and not exact and any(part.startswith("_") for part in target.split(".")):
            return False
        return exact or target.startswith(tuple(self.listed("allow.prefixes")))

    def listed(self, key: str) -> frozenset[str]:
        """The words of a line about the release as a whole."""
        words = self._listed.get(key)
        if words is None:
            words = self._listed[key] = _words(self._line(f".{key}")[1:])
        return words

    # ------------------------------------------------------------------ inside

    def _line(self, name: str) -> tuple[str, ...]:
        start = self._data.find(b"\n" + name.encode() + b"\t")
        if start < 0:
            return (name,) if self._data.find(b"\n" + name.encode() + b"\n") >= 0 else ()
        return tuple(self._data[start + 1 : self._data.index(b"\n", start + 1)].decode().split("\t"))

    def _torch(self, target: str) -> Named | None:
        name = target[6:]
        if "." in name:
            return None
        for kind, what in (("dtypes", "dtype"), ("callables", "other"), ("values", "value")):
            if name in self.listed(f"torch.{kind}"):
                return Named(what, target) if what != "other" else None
        return None if name[:1] == "_" else NOWHERE

    def _ours(self, target: str) -> Named | None:
        parts = target.split(".")
        if not target.startswith("megatron.") or not all(parts):
            return NOWHERE if target.startswith("megatron.") else None
        for end in range(len(parts), 1, -1):
            module = ".".join(parts[:end])
            columns = self._line(module)
            if columns:
                return self._inside(module, columns, parts[end:])
            if module in self.listed("missing"):
                return None
        return None if ".".join(parts[:2]) not in PACKAGES else NOWHERE

    def _inside(self, module: str, columns: tuple[str, ...], rest: list[str]) -> Named | None:
        if not rest:
            return Named("module", module)
        name = rest[0]
        for kind, column in zip(("class", "function", "enum"), columns[1:4], strict=False):
            details = _details(column, name)
            if details is not None:
                return _below(_named(kind, f"{module}.{name}", details), rest[1:])
        home = _details(columns[4], name) if len(columns) > 4 else None
        if home is not None:
            path = home or self._defined(name)
            return self._ours(".".join([path, *rest[1:]])) if path and not path.startswith(f"{module}.{name}") else None
        if name in self.listed("other") or name.startswith("__"):
            return None
        return None if any(f"{module}.{name}".startswith(apart) for apart in self.listed("missing")) else NOWHERE

    def _defined(self, name: str) -> str:
        """The path of the one class of a name."""
        text = name.encode()
        for sign in (b"\t", b" "):
            at = -1
            while (at := self._data.find(sign + text, at + 1)) >= 0:
                if self._data[at + 1 + len(text) : at + 2 + len(text)] not in (b"\t", b" ", b":", b"\n"):
                    continue
                start = self._data.rindex(b"\n", 0, at) + 1
                line = self._data[start : self._data.index(b"\n", at)].decode().split("\t")
                if not line[0].startswith(".") and any(_details(column, name) is not None for column in line[1:4:2]):
                    return f"{line[0]}.{name}"
        return ""


def _words(columns: tuple[str, ...]) -> frozenset[str]:
    return frozenset(columns[0].split(" ")) if columns else frozenset()


def _details(column: str, name: str) -> str | None:
    """What stands behind a name in a column; None where the name is not there."""
    at = f" {column} ".find(f" {name}:")
    if at >= 0:
        start = at + len(name) + 1
        return column[start:].partition(" ")[0]
    return "" if f" {name} " in f" {column} " else None


def _named(kind: str, path: str, details: str) -> Named:
    if kind == "enum":
        members = [part.partition("=") for part in details.split(",") if part]
        return Named(kind, path, members=tuple((name, int(value) if value else None) for name, _, value in members))
    text = details.removesuffix("!")
    required, more, others = text.partition(";")
    listed = tuple(part for part in others.split(",") if part) if kind == "function" else None
    return Named(
        kind,
        path,
        tuple(part for part in required.split(",") if part),
        None if listed is None or (more and "*" in listed) else listed,
        details.endswith("!"),
    )


def _below(found: Named, rest: list[str]) -> Named | None:
    """A member of an enumeration; of other attributes of a class nothing is known."""
    if not rest:
        return found
    if found.kind == "enum" and len(rest) == 1 and not rest[0].startswith("_"):
        names = [name for name, _ in found.members]
        if rest[0] in names:
            return Named("member", f"{found.path}.{rest[0]}")
        return None if f"{rest[0]}()" in names or rest[0] in ("name", "value") else NOWHERE
    return None


@functools.cache
def names(release: str) -> Names:
    """The names of a release; nightly has those of 0.7."""
    return Names("0.7" if release == "nightly" else release)
