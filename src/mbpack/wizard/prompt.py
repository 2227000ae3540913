"""The one place that talks to questionary: shows a question, returns the answer, or that the user wants back or help.

questionary's traps are closed here: a text default would pre-fill the buffer (it is shown, not filled in), ``ask()``
returns None on Ctrl-C and lets the program go on (``unsafe_ask`` raises), and without a terminal it reads answers out of
a pipe (the caller never comes here without one).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from mbpack.wizard.questions import Option

#: Replies that are no answers.
BACK, HELP, TAKE_DEFAULT = object(), object(), object()
MIN_WIDTH, MAX_WIDTH = 40, 110


def has_terminal() -> bool:
    """Whether somebody can be asked: both ends are terminals."""
    try:
        return sys.stdin.isatty() and sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def width() -> int:
    """Columns to write in."""
    return max(MIN_WIDTH, min(shutil.get_terminal_size((80, 24)).columns - 1, MAX_WIDTH))


def say(lines: Iterable[str]) -> None:
    """Print lines."""
    for line in lines:
        print(line)
    sys.stdout.flush()


def ask_text(prompt: str, default: str) -> Any:
    """A line of text; empty takes the default, which is shown and not typed in.

    Raises:
        KeyboardInterrupt, EOFError: Ctrl-C, Ctrl-D.
    """
    import questionary

    question = questionary.text(_message(prompt, default), qmark=">", key_bindings=_escape_binding(), **_look())
    return _reply(question.unsafe_ask())


def ask_line(prompt: str, default: str) -> str:
    """A line as it was typed; the default is only shown. Escape is ``b``.

    Raises:
        KeyboardInterrupt, EOFError: Ctrl-C, Ctrl-D.
    """
    import questionary

    question = questionary.text(_message(prompt, default), qmark=">", key_bindings=_escape_binding(), **_look())
    text: str = question.unsafe_ask()
    return text


def ask_search(prompt: str, default: str, names: list[str]) -> Any:
    """A line of text with completion over names that hold every word typed so far."""
    import questionary

    question = questionary.autocomplete(
        _message(prompt, default),
        choices=names,
        completer=_words_completer(names),
        qmark=">",
        key_bindings=_escape_binding(),
        **_look(),
    )
    return _reply(question.unsafe_ask())


def ask_choice(prompt: str, options: list[Option], default: Any) -> Any:
    """One of several options, chosen with the arrow keys or by their first letters' number."""
    import questionary

    room = width() - 4
    choices = [questionary.Choice(_title(option, room), value=option.value, disabled=None) for option in options]
    chosen = next((choice for choice in choices if choice.value == default), None)
    question = questionary.select(prompt, choices=choices, default=chosen, qmark=">", instruction="(b back, ? help)", **_look())
    _bind_replies(question.application)
    return question.unsafe_ask()


def ask_yes_no(prompt: str, default: bool) -> Any:
    """Yes or no; Enter takes the default."""
    reply = ask_text(f"{prompt} (y/n)", "yes" if default else "no")
    return default if reply is TAKE_DEFAULT else reply


def _message(prompt: str, default: str) -> str:
    return f"{prompt} [{default}]:" if default else f"{prompt}:"


def _reply(text: str) -> Any:
    text = text.strip(" \t")  # other white space is a slip of the keys, not an empty line
    if text.lower() == "b":
        return BACK
    if text == "?":
        return HELP
    return text or TAKE_DEFAULT


def _title(option: Option, room: int) -> str:
    note = "not here, see ?" if option.refused else option.note
    text = f"{option.title}  ({note})" if note else option.title
    return text if len(text) <= room else text[: room - 1] + "~"


def _look() -> dict[str, Any]:
    """Plain output where colour is not wanted."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        from prompt_toolkit.output import ColorDepth

        return {"color_depth": ColorDepth.DEPTH_1_BIT}
    return {}


def _escape_binding() -> Any:
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()

    @bindings.add(Keys.Escape, eager=False)
    def _(event: Any) -> None:
        event.app.exit(result="b")

    return bindings


def _bind_replies(application: Any) -> None:
    """Back and help keys in a list of choices, which takes no text."""
    from prompt_toolkit.keys import Keys

    def replying(result: object) -> Any:
        def handler(event: Any) -> None:
            event.app.exit(result=result)

        return handler

    application.key_bindings.add("b")(replying(BACK))
    application.key_bindings.add(Keys.Escape)(replying(BACK))
    application.key_bindings.add("?")(replying(HELP))


def _words_completer(names: list[str]) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        """Names that hold every word of the text."""

        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Any]:
            parts = document.text.lower().split()
            for name in names:
                if all(part in name.lower() for part in parts):
                    yield Completion(name, start_position=-len(document.text))

    return Words()
