"""How a report says that the recipe is not known: which recipes fit, with how many a finding holds, and what naming one would settle."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from mbpack.engine.result import Candidates, Result
from mbpack.report.style import Style
from mbpack.rules.base import Finding, HoldsFor, words

_PART = re.compile(r"[a-z0-9]+")
#: Parts of file names that say nothing about a recipe.
_COMMON = frozenset(
    {"config", "configs", "conf", "yaml", "yml", "override", "overrides", "recipe", "recipes", "train", "packing"}
)


def heading(result: Result) -> str:
    """What the first line of a report says instead of a recipe's name; "" where it has one."""
    held = result.candidates
    if held is None or result.context is None:
        return ""
    text = f"recipe unknown: {_counted(len(held.names), 'recipe')} of {result.context.version.release} fit{'s' if len(held.names) == 1 else ''}"
    near = by_file_name(result.path, held.names)
    if near and len(near) < len(held.names):
        more = f" and {len(near) - 1} more" if len(near) > 1 else ""
        text += f" ({near[0]}{more} by the file's name)"
    return text


def by_file_name(path: str | None, names: Sequence[str]) -> list[str]:
    """The recipes whose names share most with the file's and its directory's, at least two parts; the shortest first."""
    if path is None:
        return []
    folder, name = os.path.split(path)
    parts = set(_PART.findall(f"{os.path.basename(folder)} {os.path.splitext(name)[0]}".lower())) - _COMMON
    shared = {name: len(parts & set(_PART.findall(name))) for name in names}
    most = max(shared.values(), default=0)
    return sorted((name for name, count in shared.items() if count == most >= 2), key=lambda name: (len(name), name))


def holds_for(held: HoldsFor) -> str:
    """With how many recipes a finding holds, with some of either kind."""
    text = f"with {held.recipes} of {held.of} recipes, such as {words(held.such_as)}"
    return text + (f"; not with {words(held.not_with, 'or')}" if held.not_with else "")


def closing(held: Candidates, findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """Below the findings: what hardly any recipe brings, the verdict by recipe, and what naming one would settle."""
    if held.few:
        codes = list(dict.fromkeys(finding.rule.code for finding in held.few))
        shown = words(codes[:5]) if len(codes) <= 5 else f"{', '.join(codes[:5])} and {len(codes) - 5} more"
        yield from style.wrap(f"{shown}: only with few of the recipes (below 10%)", "On few    ", "          ")
    if 0 < held.rejected < len(held.names) or held.open:
        parts = [f"{held.rejected} refuse it", f"{held.accepted} accept it", f"{held.open} cannot be judged"]
        counts = [text for text, count in zip(parts, (held.rejected, held.accepted, held.open), strict=True) if count]
        yield from style.wrap(f"depends on the recipe: of {len(held.names)}, {words(counts)}", "Start-up  ", "          ")
    open_findings = sum(finding.holds_for is not None for finding in findings) + len(held.few)
    if open_findings:
        yield from style.wrap(f"--recipe NAME settles {_counted(open_findings, 'more finding')}", "Next      ", "          ")


def listing(held: Candidates, style: Style) -> Iterator[str]:
    """All candidates, for --show-candidates."""
    yield style.paint("bold", f"Candidates ({len(held.names)})")
    yield from (f"  {name}" for name in held.names)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
