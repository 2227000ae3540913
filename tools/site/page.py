"""A page of the site before it is HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Crumb(NamedTuple):
    """A page above another one: its title and its path from the root."""

    title: str
    path: str


class Page(NamedTuple):
    """One page.

    path      from the root, with its ending: ``rules/ALN101.html``.
    title     its heading; `summary` one sentence for search engines and lists.
    text      Markdown without the heading; links are paths from the root. A ``raw`` fence holds HTML, a ``run`` fence commands.
    crumbs    the pages above it, the outermost first.
    words     further words that a search finds it by.
    language  of its text; `others` are its translations, language and path.
    """

    path: str
    title: str
    summary: str
    text: str
    crumbs: tuple[Crumb, ...] = ()
    words: str = ""
    language: str = "en"
    others: tuple[tuple[str, str], ...] = ()

    @property
    def depth(self) -> int:
        """How many directories it lies below the root."""
        return self.path.count("/")

    @property
    def up(self) -> str:
        """What leads from it to the root."""
        return "../" * self.depth


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table; none without rows."""
    if not rows:
        return ""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Text as inline code, whatever backticks it holds."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def plain(text: str) -> str:
    """Text of a docstring as Markdown: code stays code, stars and underscores are what they are."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]\\|])", r"\\\1", part) for part in parts)


def fenced(content: str, kind: str = "") -> str:
    """A block of code, whatever it holds."""
    fence = "```"
    while fence in content:
        fence += "`"
    return f"{fence}{kind}\n{content.rstrip()}\n{fence}"


def raw(html: str) -> str:
    """HTML as it is."""
    return fenced(html, "raw")
