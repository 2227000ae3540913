"""`python -m tools.site --output DIR`: build the documentation site."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tools.site.build import build
from tools.site.check import problems


def main() -> int:
    """Build the site into a directory and check it; files that it no longer has are left alone."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Build the documentation site.")
    parser.add_argument("--output", type=Path, required=True, help="directory for the site")
    arguments = parser.parse_args()
    start = time.perf_counter()
    files = build()
    for name, content in files.items():
        target = arguments.output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    pages = sum(name.endswith(".html") for name in files)
    wrong = problems(files)
    for line in wrong:
        print(line, file=sys.stderr)
    print(
        f"{pages} pages, {len(files)} files, {len(wrong)} problems in {time.perf_counter() - start:.1f} s: {arguments.output / 'index.html'}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
