"""Records mbpack's own answers anew: shows what changes, file by file, and asks.

    python -m tests.record            show each change, keep it on y
    python -m tests.record --yes      keep all of them
    python -m tests.record --check    only say which records would change; exit code 1 when any would

The records show that something changed, not that it was right. New rules get neighbours first
(:mod:`tests.rules.choose_neighbours` chooses them where a rule has none).
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[1]
READS = ROOT / "src" / "mbpack" / "rules" / "reads.tsv"
FOLDERS = ("neighbours", "findings", "facts")
FILES = ("arguments.txt",)
#: Every command that writes a record, in an order in which none reads what a later one writes.
WRITERS = (
    ("tests.rules.choose_neighbours",),
    ("tests.rules.neighbours", "--write"),
    ("tests.rules.recorded", "--write"),
    ("tests.rules.arguments", "--write"),
    ("tests.facts.by_release", "--write"),
)


def contents() -> dict[Path, str]:
    """Every record as it is now."""
    paths = [path for folder in FOLDERS for path in sorted((DATA / folder).glob("*.txt"))]
    return {path: path.read_text(encoding="utf-8") for path in [*paths, *(DATA / name for name in FILES), READS]}


def accepted(path: Path, before: str, after: str) -> bool:
    """Show one change and ask; anything but y or yes leaves the record as it was."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), "on record", "today", lineterm="", n=1)
    print(f"\n== {path.relative_to(ROOT)}", *diff, sep="\n")
    return input("Keep this change? (y/N) ").strip().lower() in ("y", "yes")


def main() -> int:
    before = contents()
    for writer in WRITERS:
        subprocess.run([sys.executable, "-m", *writer], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, str(ROOT / "tools" / "rule_reads.py")], check=True)
    after = contents()
    changed = [path for path, text in after.items() if before.get(path, "") != text]
    keep_all, check = "--yes" in sys.argv[1:], "--check" in sys.argv[1:]
    for path in changed:
        if check:
            print(path.relative_to(ROOT))
        if check or not (keep_all or accepted(path, before.get(path, ""), after[path])):
            path.write_text(before[path], encoding="utf-8") if path in before else path.unlink()
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
