"""Complete findings of recorded configurations: what every rule says about real, generated start-ups of each release.

The configurations are rows of ``tests/data/verdicts``, ``overrides`` and ``fields``; ``tests/data/findings`` holds, by corpus and row, every finding without its words, and the rules that could not be judged. Compared by ``test_recorded_findings.py``.

    python -m tests.rules.recorded           say what has changed
    python -m tests.rules.recorded --write   accept today's findings (read the diff before it is committed)
    python -m tests.rules.recorded --choose [CORPUS...]  choose rows anew: those that show something the rows before did not
"""

from __future__ import annotations

import gzip
import itertools
import json
import sys
from functools import cache
from pathlib import Path

from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from tests.conformance.one_field import recorded
from tests.conformance.rows import Row, corpora, text_of
from tests.rules.neighbours import line

FOLDER = Path(__file__).parents[1] / "data" / "findings"
FILES = sorted(FOLDER.glob("*.txt"))
CORPORA = {
    f"{kind}-{path.name.removesuffix('.jsonl.gz')}": path
    for kind in ("verdicts", "overrides", "fields")
    for path in corpora(kind)
}
#: Rows of a corpus that are looked at, and kept. Of those with one changed field all that are refused are looked at.
CONSIDERED, MOST, MOST_FIELDS = 300, 28, 500


@cache
def rows(corpus: str) -> dict[str, Row]:
    """The rows of a corpus that may be chosen, by their name: the first that need no command line; of changed fields those chosen."""
    path = CORPORA[corpus]
    if path.parent.name == "fields":
        chosen = FOLDER / f"{corpus}.txt"
        return {row["id"]: row for row in recorded(path, read_file(chosen) if chosen.exists() else None)}
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        first = map(json.loads, itertools.islice(stream, CONSIDERED))
        return {str(row["id"]): row for row in first if not row.get("overrides")}


def findings(row: Row) -> list[str]:
    """What the doctor says about a row: a line per finding, then the rules that could not be judged; of a changed field errors only."""
    result = judge(Request([parse(text_of(row))], environ={}))
    if "changed" in row:
        errors = [f for f in result.findings if f.outcome.severity == "error"]
        return [f"{f.rule.slug}{' (first)' if f is result.first else ''}: {line(f)}" for f in errors]
    said = [f"{f.rule.slug}{' (first)' if f is result.first else ''}: {line(f)}" for f in result.findings]
    return [*said, f"not checked: {' '.join(sorted({entry.rule.code for entry in result.not_checked})) or 'none'}"]


@cache
def read_file(path: Path) -> dict[str, list[str]]:
    """Row -> its lines."""
    found: dict[str, list[str]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        if text.startswith("@ "):
            lines = found[text[2:]] = []
        elif text:
            lines.append(text)
    return found


def write_file(path: Path, found: dict[str, list[str]]) -> None:
    path.write_text("\n".join("\n".join([f"@ {name}", *lines, ""]) for name, lines in found.items()), encoding="utf-8")


def choose(corpus: str, seen: set[str]) -> dict[str, list[str]]:
    kept: dict[str, list[str]] = {}
    fields = CORPORA[corpus].parent.name == "fields"
    looked_at = recorded(CORPORA[corpus]) if fields else rows(corpus).values()
    for row in looked_at:
        if len(kept) >= (MOST_FIELDS if fields else MOST):
            break
        if fields and row["expect"] == "accepted":
            continue
        name, lines = str(row["id"]), findings(row)
        new = {f"{row['release']} {text}" for text in (lines if fields else lines[:-1])} - seen
        if new:
            kept[name] = lines
            seen |= new
    return kept


def main() -> int:
    if "--choose" in sys.argv[1:]:
        FOLDER.mkdir(exist_ok=True)
        seen: set[str] = set()
        for corpus in sys.argv[sys.argv.index("--choose") + 1 :] or CORPORA:
            write_file(FOLDER / f"{corpus}.txt", choose(corpus, seen))
        return 0
    changed = False
    for path in FILES:
        before = read_file(path)
        after = {name: findings(rows(path.stem)[name]) for name in before}
        for name in before:
            if before[name] != after[name]:
                changed = True
                gone, new = set(before[name]) - set(after[name]), set(after[name]) - set(before[name])
                print(f"{path.stem} {name}:", *(f"  - {text}" for text in gone), *(f"  + {text}" for text in new), sep="\n")
        if "--write" in sys.argv[1:]:
            write_file(path, after)
    return 1 if changed and "--write" not in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
