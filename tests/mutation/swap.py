"""Put a mutant into effect without touching a file: in a loaded module where that is exact, else at its import.

A mutant that changes only the bodies of functions is given to the living functions (their ``__code__``); everything that
remembers results is told to forget. What changes a module's or a class's own statements needs a fresh import.
"""

from __future__ import annotations

import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

Key = tuple[str, str, int]
_OPTIMISED = 0x1  # set on the code of functions, not on that of modules and classes


def key_of(code: CodeType) -> Key:
    return code.co_filename, getattr(code, "co_qualname", code.co_name), code.co_firstlineno


def living_functions(folder: Path) -> dict[Key, list[FunctionType]]:
    """Every function object whose code comes from a folder."""
    found: dict[Key, list[FunctionType]] = {}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(str(folder)):
            found.setdefault(key_of(thing.__code__), []).append(thing)
    return found


def new_bodies(path: Path, old_text: str, new_text: str, living: dict[Key, list[FunctionType]]) -> dict[Key, CodeType] | None:
    """The code to give to living functions; None where a mutant changes more than bodies of functions."""
    old, new = (list(_walk(compile(text, str(path), "exec", dont_inherit=True))) for text in (old_text, new_text))
    if [depth for depth, _ in old] != [depth for depth, _ in new]:
        return None
    bodies: dict[Key, CodeType] = {}
    function_depth: int | None = None  # of the living function we are inside
    for (depth, before), (_, after) in zip(old, new, strict=True):
        if function_depth is not None and depth <= function_depth:
            function_depth = None
        key, differs = key_of(before), _own(before) != _own(after)
        if differs and not before.co_flags & _OPTIMISED:
            return None
        lives = living.get(key, [])
        if len({id(function.__code__) for function in lives}) > 1:
            return None  # two lambdas on one line
        if lives and before.co_flags & _OPTIMISED:
            if before != after or differs:
                bodies[key] = after
            function_depth = depth if function_depth is None else function_depth
        elif differs and function_depth is None:
            return None
    return bodies


def give(bodies: dict[Key, CodeType], living: dict[Key, list[FunctionType]]) -> None:
    """Put new bodies into living functions."""
    for key, code in bodies.items():
        for function in living[key]:
            function.__code__ = code


def forget() -> None:
    """Empty every functools cache."""
    for cache in _caches(len(sys.modules)):
        cache.cache_clear()


@functools.cache
def _caches(modules: int) -> list[Any]:
    return [thing for thing in gc.get_objects() if isinstance(thing, functools._lru_cache_wrapper) and thing is not _caches]


def set_plain(module: ModuleType, text: str, base: type) -> int:
    """Carry the plain values that a mutant changes (of the module, of its classes below ``base``) over; return how many.

    Values computed elsewhere from the old ones stay: a mutant that lives on after this has to be imported afresh.
    """
    fresh = ModuleType(module.__name__)
    fresh.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    exec(compile(text, str(module.__file__), "exec", dont_inherit=True), fresh.__dict__)
    changed = 0
    for name, new in list(vars(fresh).items()):
        old = vars(module).get(name)
        if isinstance(old, type) and isinstance(new, type) and issubclass(old, base):
            for attribute, value in vars(new).items():
                if _differ(vars(old).get(attribute), value):
                    setattr(old, attribute, value)
                    changed += 1
        elif _differ(old, new):
            changed += 1
            for other in list(sys.modules.values()):
                if vars(other).get(name) is old and other.__name__.startswith(("mbpack.", "tests.")):
                    setattr(other, name, new)
    return changed


def _differ(old: Any, new: Any) -> bool:
    return _plain(old) and _plain(new) and (type(old) is not type(new) or repr(old) != repr(new))


def _plain(value: Any) -> bool:
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(map(_plain, value)) and all(map(_plain, value.values()))
    return type(value) in (int, float, str, bool, type(None)) or type(value).__name__ == "Release"


class Importer(importlib.abc.MetaPathFinder):
    """Imports one module from another text."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self.name, self.path, self.text = name, path, text

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=_Loader(name, str(self.path), self.text))

    def install(self) -> None:
        sys.meta_path.insert(0, self)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


def _walk(code: CodeType, depth: int = 0) -> Iterator[tuple[int, CodeType]]:
    yield depth, code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk(constant, depth + 1)


def _own(code: CodeType) -> tuple[Any, ...]:
    constants = [repr(constant) for constant in code.co_consts if not isinstance(constant, CodeType)]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, constants, names, getattr(code, "co_exceptiontable", b"")
