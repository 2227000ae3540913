"""Which values of a document take theirs from another key through ``${...}``."""

from __future__ import annotations

from mbpack.config.document import Document, walk
from mbpack.config.scalars import Interpolation
from mbpack.facts.patterns import lazy

_NODE = lazy(r"\$\{\s*(\.*)([A-Za-z0-9_\-.\[\]]+)\s*\}")
_CALL = lazy(r"\$\{\s*oc\.(?:select|dict\.keys|dict\.values|deprecated)\s*:\s*(\.*)([A-Za-z0-9_\-.\[\]]+)")
_SPLIT = lazy(r"[.\[\]]+")


def refers_to(document: Document, path: tuple[str, ...]) -> str:
    """The first key whose expression reads a path, a section it lies in, or a key below it; "" where nobody does."""
    if document.root is None or "${" not in document.text:
        return ""
    for place, item in walk(document.root):
        names = tuple(str(part) for part in place)
        if isinstance(item.value, Interpolation) and names[: len(path)] != path:
            for pattern in (_NODE, _CALL):
                for match in pattern.finditer(item.value):
                    keys = tuple(part for part in _SPLIT.split(match[2]) if part)
                    read = names[: -len(match[1])] + keys if match[1] else keys
                    if read[: len(path)] == path or path[: len(read)] == read:
                        return ".".join(names)
    return ""
