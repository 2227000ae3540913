"""A rule's documentation: its docstring, taken apart at the fixed headings."""

from __future__ import annotations

import inspect
import re

from msgspec import Struct

from mbpack.rules.base import Rule
from mbpack.rules.worded import Worded

HEADINGS = ("Bad", "Good", "Upstream", "Release notes")
_FENCE = re.compile(r"^```(?:yaml|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Page(Struct, frozen=True):
    """What ``mbpack explain`` shows of a rule: title, text, examples (YAML texts) and where upstream has it."""

    title: str
    text: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    upstream: tuple[str, ...]
    notes: str


def page_of(rule: Rule) -> Page:
    """The documentation of a rule."""
    if isinstance(rule, Worded):
        return rule.page()
    lines = inspect.cleandoc(type(rule).__doc__ or "").split("\n")
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in lines:
        heading = line.removeprefix("## ").strip() if line.startswith("## ") else None
        if heading in HEADINGS:
            current = heading or ""
            sections.setdefault(current, [])
        else:
            sections[current].append(line)
    head = sections.pop("")
    text = {name: "\n".join(body).strip() for name, body in sections.items()}
    return Page(
        title=head[0].strip() if head else "",
        text="\n".join(head[1:]).strip(),
        bad=_examples(text.get("Bad", "")),
        good=_examples(text.get("Good", "")),
        upstream=_bullets(text.get("Upstream", "")),
        notes=text.get("Release notes", ""),
    )


def _examples(text: str) -> tuple[str, ...]:
    return tuple(match[1] for match in _FENCE.finditer(text + "\n"))


def _bullets(text: str) -> tuple[str, ...]:
    items: list[str] = []
    for line in text.split("\n"):
        if line.startswith("- "):
            items.append(line[2:].strip())
        elif line.strip() and items:
            items[-1] += " " + line.strip()
    return tuple(items)
