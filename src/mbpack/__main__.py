"""The console entry: answers `--version` before anything else is imported, then hands over to the command line."""

from __future__ import annotations

import gc
import sys

#: New objects between two looks for garbage cycles: a configuration makes tens of thousands, and hardly any cycle.
_OBJECTS = 50_000


def load_libraries() -> None:
    """Import msgspec and PyYAML without what they do not need here.

    msgspec goes without `typing_extensions`, which takes as long to import as a configuration takes to judge: it falls back on the
    same names of `typing`. A process that has it already keeps it. The patterns of PyYAML's readers in Python and of modules
    that come with msgspec are compiled when somebody uses them; PyYAML's parser in C uses none.
    """
    import re

    from mbpack.facts.patterns import Lazy

    at_once, missing = re.compile, "typing_extensions" not in sys.modules
    if missing:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # importing it fails
    re.compile = Lazy  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
        import yaml  # noqa: F401
    finally:
        re.compile = at_once
        if missing:
            del sys.modules["typing_extensions"]


def main() -> None:
    """Run the command line; exits the process with the command's code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from mbpack import __version__

        print(f"mbpack {__version__}")
        return
    gc.set_threshold(_OBJECTS)
    try:
        load_libraries()
        from mbpack.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are still being imported
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
