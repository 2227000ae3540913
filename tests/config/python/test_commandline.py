"""A command line that is known is read as argparse reads it."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.python import Command, read_program
from tests.config.python.test_idioms import settings as read_settings

OPTIONS = {
    "--size": "type=int, default=4",
    "--rate": "type=float",
    "--name": 'default="small"',
    "--flag": 'action="store_true"',
    "--off": 'action="store_false"',
    "--many": 'nargs="+", type=int',
    "--any": 'nargs="*"',
    "--maybe": 'nargs="?", const="c", default="d"',
    "--add": 'action="append"',
    "--both": "action=argparse.BooleanOptionalAction, default=True",
    "-k": 'dest="kept", type=int, default=1',
}
NAMES = ["size", "rate", "name", "flag", "off", "many", "any", "maybe", "add", "both", "kept"]
HEAD = "import argparse\nfrom megatron.bridge.recipes.llama import llama3_8b_sft_config\n"
PARSER = "parser = argparse.ArgumentParser()\n" + "".join(
    f"parser.add_argument({flag!r}, {rest})\n" for flag, rest in OPTIONS.items()
)
words = st.one_of(
    st.sampled_from(
        [*OPTIONS, "--siz", "--no-both", "--size=3", "--name=x=y", "--maybe=z", "--unknown", "-5", "--rate=-1e-3", "-k7"]
    ),
    st.sampled_from(["1", "2", "0.5", "text", "a.b=c"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(words, max_size=7))
def test_like_argparse(line: list[str]) -> None:
    expected = really(line)
    source = HEAD + PARSER + "args, rest = parser.parse_known_args()\ncfg = llama3_8b_sft_config()\n"
    source += "".join(f"cfg.logger.{name} = args.{name}\n" for name in NAMES) + "cfg.logger.rest = rest\n"
    made, _ = read_program(source, None, "0.6", lambda name: None, Command(tuple(line)))
    for variant in made[-1].variants[:2]:
        found = {key.partition(".")[2]: value for key, value in read_settings(variant).items()}
        for name, value in found.items():
            if expected is not None and value != "?":
                assert (type(value), value) == (type(expected[name]), expected[name]), (line, name)


def really(line: list[str]) -> dict[str, Any] | None:
    """What argparse makes of it, None where it refuses the line."""
    held: dict[str, Any] = {"argparse": argparse}
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(f"{PARSER}args, rest = parser.parse_known_args({line!r})", held)
        except SystemExit:
            return None
    return {**vars(held["args"]), "rest": held["rest"]}


def test_words_that_are_not_known_leave_what_they_touch_unknown() -> None:
    source = HEAD + PARSER + "args = parser.parse_args()\ncfg = llama3_8b_sft_config()\n"
    source += "cfg.logger.size, cfg.logger.name = args.size, args.name\n"

    def held(*line: str | None) -> dict[str, Any]:
        return read_settings(read_program(source, None, "0.6", lambda name: None, Command(line))[0][-1].variants[0])

    assert held("--size", None) == {"logger.size": "?", "logger.name": "small"}
    assert held(None, "--size", "3") == {"logger.size": "?", "logger.name": "?"}
    assert held("--size", "3") == {"logger.size": 3, "logger.name": "small"}
