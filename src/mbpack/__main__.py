"""The console entry: answers `--version` before anything else is imported, then hands over to the command line."""

from __future__ import annotations

import gc
import sys

#: New objects between two looks for garbage cycles: a configuration makes tens of thousands, and hardly any cycle.
_OBJECTS = 50_000


def load_msgspec() -> None:
    """Import msgspec without `typing_extensions`: it falls back on the same names of `typing`, whose import costs nothing more.

    `typing_extensions` takes as long to import as a configuration takes to judge. A process that has it already keeps it.
    """
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # importing it fails
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def main() -> None:
    """Run the command line; exits the process with the command's code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from mbpack import __version__

        print(f"mbpack {__version__}")
        return
    gc.set_threshold(_OBJECTS)
    try:
        load_msgspec()
        from mbpack.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are still being imported
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
