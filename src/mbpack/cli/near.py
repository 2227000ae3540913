"""Where a file lies that a launch script names: scripts are started from other folders than their own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

#: A piece of a path that reading the script does not tell, up to the slash behind it.
_UNKNOWN_FOLDER = re.compile(r"^.*\$\{shell:[^}]*\}[^/]*/")
#: Folders above a script that are looked into.
_MOST = 8


def shown(name: str) -> str:
    """A path as a message shows it: what is not known is three dots."""
    return re.sub(r"\$\{shell:[^}]*\}", "...", name)


def near(script: str, name: str) -> str | None:
    """The file that a script names: as written, beside the script, or below a folder around it; None where there is none.

    A folder that is not known (``$SCRIPT_DIR``, ``$(pwd)``) may be any of these; an unknown name is no file.
    """
    tail = _UNKNOWN_FOLDER.sub("", name)
    if not tail or "${" in tail:
        return None
    folder = os.path.dirname(script)
    places = [] if tail != name else [name]
    places.append(os.path.join(folder, tail))
    if not os.path.isabs(tail) and "/" in tail:
        places += [os.path.relpath(os.path.join(above, tail)) for above in _around(folder)]
    return next((place for place in places if os.path.isfile(place)), None)


def _around(folder: str) -> Iterator[str]:
    """The folders above one, up to the root of its repository."""
    here = os.path.abspath(folder)
    for _ in range(_MOST):
        above = os.path.dirname(here)
        if above == here or os.path.exists(os.path.join(here, ".git")):
            return
        here = above
        yield here
