"""Writes how every consequence is known: the package's data and the table of README.md.

python -m tests.conformance.demonstrations.table             write both
python -m tests.conformance.demonstrations.table --check     exit code 1 where they are not what the demonstrations declare
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES

from .run import declared

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "src" / "mbpack" / "facts" / "data" / "proofs.tsv"
README = HERE.parent / "README.md"
BEGIN, END = "<!-- proofs: python -m tests.conformance.demonstrations.table -->\n", "<!-- end of the proofs -->\n"
RELEASES = ("0.3", "0.4", "0.5.0", "0.5", "0.6", "0.7")
#: Outcomes beyond a refusal, by their names in the rules.
_BEYOND = re.compile(r"\b(CRASH_\w+|SILENT\w*|IGNORED|WASTE|WARN_CRASH_DATA|WARN_SILENT|outcome_of)\b")
_WRITTEN = re.compile(r'Outcome\("\w+", "(?:crash|silent|ignored|waste)"')
_MILD = ("WASTE", "WARN_CRASH_DATA", "WARN_SILENT")


def concerns(rule: Rule) -> bool:
    """Whether a rule speaks of a crash, silent damage, something ignored or waste."""
    body = _body(rule)
    return bool(_BEYOND.search(body) or _WRITTEN.search(body))


def is_error(rule: Rule) -> bool:
    """Whether it can do so as an error."""
    for match in _BEYOND.finditer(_body(rule)):
        if match[1] not in _MILD and not _body(rule)[match.end() :].startswith((".as_warning", ".as_info")):
            return True
    return False


def _body(rule: Rule) -> str:
    return inspect.getsource(type(rule)).split("code, slug", 1)[-1]


def read() -> dict[str, tuple[str, str]]:
    """Code -> kind and reason, for rules without a demonstration."""
    lines = (line.split("\t") for line in (HERE / "read.tsv").read_text().splitlines() if not line.startswith("#"))
    return {code: (kind, reason) for code, kind, reason in lines}


def rows() -> list[tuple[str, str, str, str]]:
    """Code, kind, releases and detail of every rule that speaks of more than a refusal."""
    found = []
    by_hand = read()
    for rule in sorted(ALL_RULES, key=lambda rule: rule.code):
        shown = [one for one in declared() if rule.code in one.rules]
        if shown:
            releases = sorted({release for one in shown for release in one.releases}, key=RELEASES.index)
            found.append((rule.code, "shown", " ".join(releases), " ".join(one.name for one in shown)))
        elif concerns(rule):
            kind, reason = by_hand.get(rule.code, ("read", ""))
            found.append((rule.code, kind, "", reason))
    return found


def data() -> str:
    head = "# Written by python -m tests.conformance.demonstrations.table: code, kind, releases, demonstration or reason.\n"
    return head + "".join("\t".join(row) + "\n" for row in rows())


def markdown() -> str:
    """The table of README.md."""
    slugs = {rule.code: rule.slug for rule in ALL_RULES}
    lines = [f"| rule | {' | '.join(RELEASES)} | how it is known |", "|---" * (len(RELEASES) + 2) + "|"]
    found = rows()
    for code, kind, releases, detail in found:
        marks = ["shown" if release in releases.split() else "" for release in RELEASES]
        how = ", ".join(f"`{name}`" for name in detail.split()) if kind == "shown" else f"{kind}{f': {detail}' if detail else ''}"
        lines.append(f"| {code} {slugs[code]} | {' | '.join(marks)} | {how} |")
    kinds = [kind for _, kind, _, _ in found]
    claims = sum(len(one.releases) for one in declared())
    count = (
        f"{len(declared())} demonstrations, {claims} with their releases; of {len(found)} rules {kinds.count('shown')} are shown."
    )
    return "\n".join([count, "", *lines]) + "\n"


def readme() -> str:
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + markdown() + END + rest.partition(END)[2]


def main() -> int:
    wanted = {DATA: data(), README: readme()}
    if "--check" in sys.argv[1:]:
        return int(any(path.read_text() != text for path, text in wanted.items()))
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
