"""Regular expressions that are compiled when they are first used: a start of the program uses few of those it meets."""

from __future__ import annotations

import re
from typing import Any, cast


class Lazy:
    """Stands in the place of a compiled expression and becomes one when it is asked for anything."""

    def __init__(self, source: Any, flags: int = 0) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        vars(self).update({known: getattr(compiled, known) for known in _ASKED})
        return getattr(compiled, name)


_ASKED = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split", "pattern", "flags")


def lazy(source: str, flags: int = 0) -> re.Pattern[str]:
    """An expression, compiled when it is first used."""
    return cast("re.Pattern[str]", Lazy(source, flags))
