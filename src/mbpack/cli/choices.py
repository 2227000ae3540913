"""Options that take one of a few words: shown in the help, refused with the nearest one."""

from __future__ import annotations

from collections.abc import Sequence

from mbpack.cli.inputs import InputError

TEXT_JSON = ("text", "json")


def choice(words: Sequence[str]) -> str:
    """How the words are shown in the help of an option."""
    return f"[{'|'.join(words)}]"


def check_choice(option: str, word: str, words: Sequence[str]) -> None:
    """Refuse what is none of the words.

    Raises:
        InputError: naming them, and the nearest one.
    """
    if word in words:
        return
    from difflib import get_close_matches

    near = get_close_matches(word, words, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InputError(f"{option} {word} is not known; use {', '.join(words)}{hint}")
