"""`--color auto|always|never`, which every command takes anywhere among its words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

WORDS = ("auto", "always", "never")
FLAG = "--color"
#: What the environment says for each word; the variables are read by :func:`mbpack.report.style.is_coloured` and by rich.
_SAID = {"auto": {}, "always": {"FORCE_COLOR": "1"}, "never": {"NO_COLOR": "1"}}


class ColourError(Exception):
    """A word that says nothing about colour; the message is one line."""


@contextmanager
def chosen(words: Sequence[str]) -> Iterator[list[str]]:
    """The words without what they say about colour, which holds as long as the context does.

    Raises:
        ColourError: a word that is none of `WORDS`.
    """
    rest, colour = _split(words)
    if colour is None:
        yield rest
        return
    if colour not in WORDS:
        raise ColourError(f"{FLAG} {colour}: use {', '.join(WORDS[:-1])} or {WORDS[-1]}")
    before = {name: os.environ.pop(name, None) for name in ("FORCE_COLOR", "NO_COLOR")} if colour != "auto" else {}
    os.environ.update(_SAID[colour])
    try:
        yield rest
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _split(words: Sequence[str]) -> tuple[list[str], str | None]:
    """All other words, and what was said last about colour ("" where the word is missing)."""
    rest: list[str] = []
    colour = None
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            return [*rest, word, *waiting], colour
        name, equals, text = word.partition("=")
        if name == FLAG:
            colour = text if equals else next(waiting, "")
        else:
            rest.append(word)
    return rest, colour
