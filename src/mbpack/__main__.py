"""The console entry: answers `--version` before anything else is imported, then hands over to the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; exits the process with the command's code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from mbpack import __version__

        print(f"mbpack {__version__}")
        return
    from mbpack.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
