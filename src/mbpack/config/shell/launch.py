"""The launch commands of a shell script, with the place of every override."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from mbpack.config.shell.reader import Reader
from mbpack.config.shell.slurm import Counts, benchmark_gpus, directives, gpu_count, job_variables, torchrun_facts
from mbpack.config.shell.text import Text, Value, joined, source_text
from mbpack.facts.launchers import (
    CONFIG_FILE_FLAGS,
    PERFORMANCE_MODEL,
    PERFORMANCE_PROGRAMS,
    PERFORMANCE_SETS,
    PREPARERS,
    RUN_RECIPE,
    SUBMITTERS,
    SWITCHES,
    flag_in,
    flags_named,
    model_recipe,
)
from mbpack.facts.releases import Release

#: Characters of a script that are read at most: launch scripts are small, and a file of data is none.
MAX_SCRIPT = 1 << 19
MAX_NESTED = 4
#: Names of a recipe, whole and in part, that are put together from the texts of variables.
MAX_CHOICES = 256

_OVERRIDE = re.compile(r"(?:\+\+?|~)?[A-Za-z_][\w.@/-]*=|~[A-Za-z_][\w.]*$")
_OPTION = re.compile(r"--?[A-Za-z]")
_PIECE = re.compile(r"\$\{shell:(\w+)\}")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
#: Commands that only speak of a script or look at it.
_TALKING = frozenset(
    ("echo", "printf", "cat", "ls", "test", "[", "[[", "cp", "mv", "rm", "mkdir", "grep", "sed", "awk", "tee", ":")
)
_WRITTEN = re.compile(r"""(?:[^\s;&|<>()"'`$\\]|\\.|\$\{[^}\n]*\}|\$\w+)+""")
_PYTHON = re.compile(r"python[\d.]*$|torchrun$|torch\.distributed\.run$")
_ANY_QUOTED = re.compile(r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")


class ScriptError(ValueError):
    """A launch script that cannot be read; the message is one line."""


class Word(Struct, frozen=True):
    """A word of the command: its text (unknown pieces as ``${shell:NAME}``), and where it is written (from 1).

    ``defaults`` are the variables whose defaults it holds (``${X:-8}``), which the environment may replace.
    """

    text: str
    known: bool
    defaults: tuple[str, ...]
    line: int
    column: int
    end_column: int

    @property
    def likely(self) -> bool:
        """Whether a part is a default that the environment may replace."""
        return bool(self.defaults)


class LaunchFlag(Struct, frozen=True):
    """An option of the launch command; ``value`` is None for a switch."""

    name: str
    value: Word | None
    word: Word


class LaunchOverride(Struct, frozen=True):
    """One KEY=VALUE argument, in the override grammar; an unknown value reads ``${shell:NAME}``."""

    word: Word
    value: Word

    @property
    def text(self) -> str:
        """The argument as the launcher's override parser gets it."""
        return self.word.text


class Launch(Struct, frozen=True):
    """One launch command.

    ``launcher`` is ``run_recipe`` or ``script``, None for programs that are neither (the performance scripts; ``performance``:
    one that builds a recipe of its own).
    ``gpus`` is the number of processes where the script says it. ``opaque`` holds arguments that reading cannot resolve
    and that may be further overrides. ``environment`` has what the script exports, where known.
    """

    script: Word
    launcher: str | None
    flags: tuple[LaunchFlag, ...]
    overrides: tuple[LaunchOverride, ...]
    opaque: tuple[Word, ...] = ()
    counts: Counts = field(default_factory=Counts)
    environment: Mapping[str, str] = field(default_factory=dict)
    performance: bool = False
    recipes: tuple[str, ...] = ()  # the names that a recipe chosen by branches of the script may have
    torchrun: Mapping[str, str] = field(default_factory=dict)  # see :func:`mbpack.config.shell.slurm.torchrun_facts`

    @property
    def nodes(self) -> int | None:
        """Number of nodes, where written."""
        return self.counts.nodes

    @property
    def gpus(self) -> int | None:
        """Number of GPUs in all, where written."""
        return self.counts.gpus

    def flag(self, *names: str) -> Word | None:
        """The value of the last option of these names."""
        found = [flag.value for flag in self.flags if flag.name in names and flag.value is not None]
        return found[-1] if found else None

    @property
    def config_files(self) -> tuple[Word, ...]:
        """YAML files that a user's own script is given."""
        return tuple(flag.value for flag in self.flags if flag.name in CONFIG_FILE_FLAGS and flag.value is not None)

    @property
    def step(self) -> Word | None:
        """The step function that is asked for."""
        return self.flag("--step_func", "--step-func")

    def recipe(self) -> str | None:
        """The recipe's name: ``--recipe``, or ``--model`` with ``--mode``; None where it is not known."""
        name = self.flag("--recipe")
        if name is not None:
            return name.text if name.known else None
        model, mode = self.flag("--model"), self.flag("--mode")
        if model is None or mode is None or not (model.known and mode.known):
            return None
        return model_recipe(model.text, mode.text)

    def settings(self, release: Release) -> Iterator[LaunchOverride]:
        """What the command sets in a release: options that are short for a key first, then the overrides, which win.

        With the performance launcher the options win.
        """
        if self.performance:
            yield from self.overrides
            keys = {name: key for names, key in PERFORMANCE_SETS.items() for name in names}
            for flag in self.flags:
                if flag.name in keys and flag.value is not None:
                    text = {"None": "null"}.get(flag.value.text, flag.value.text)
                    yield LaunchOverride(replace(flag.value, text=f"{keys[flag.name]}={text}"), flag.value)
            return
        for flag in self.flags:
            meaning = flag_in(release, flag.name) if self.launcher == "run_recipe" else None
            if meaning is not None and meaning.sets is not None and flag.value is not None:
                yield LaunchOverride(replace(flag.value, text=f"{meaning.sets}={flag.value.text}"), flag.value)
        yield from self.overrides


class Started(Struct, frozen=True):
    """A command that starts a Python program of somebody's: the program's word ("-" for one on standard input), its arguments."""

    program: Word
    arguments: tuple[Word, ...]
    counts: Counts
    environment: Mapping[str, str]


class Script(Struct, frozen=True):
    """A launch script: its launch commands in order, and its comments (line, text), which may hold directives.

    ``started`` are the Python programs that it starts beside, ``variables`` what its variables hold at the end, where known.
    """

    path: str
    launches: tuple[Launch, ...]
    comments: tuple[tuple[int, str], ...]
    started: tuple[Started, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def read_script(source: str, path: str = "") -> Script:
    """Read every launch command of a script.

    Raises:
        ScriptError: the text is too long to be a launch script.
    """
    if len(source) > MAX_SCRIPT:
        raise ScriptError(f"{path or 'script'}: too long for a launch script ({len(source):,} characters)")
    reading = _Reading(source)
    comments = tuple((reading.line(offset), text) for offset, text in reading.comments)
    return Script(path, tuple(reading.launches), comments, tuple(reading.started), reading.variables)


def read_launch(source: str, path: str = "") -> Launch | None:
    """The last launch command of a script; None when there is none.

    Raises:
        ScriptError: the text is too long to be a launch script.
    """
    launches = read_script(source, path).launches
    return launches[-1] if launches else None


_Arguments = tuple[tuple[LaunchFlag, ...], tuple[LaunchOverride, ...], tuple[Word, ...]]


class _Reading:
    """One pass over a script."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0, *(match.end() for match in re.finditer("\n", source))]
        self.launches: list[Launch] = []
        self.started: list[Started] = []
        self.batch = directives(source)
        reader = Reader(source_text(source), self._command, job_variables(self.batch))
        reader.read()
        if not self.launches:  # what a script writes into another one may be what starts
            for body in reader.bodies:
                self._nested((), body, reader)
        self.comments = reader.comments
        held = reader.variables.items()
        self.variables = {name: value.plain for name, value in held if isinstance(value, Text) and value.known}

    def line(self, offset: int) -> int:
        """Line of an offset, from 1."""
        return bisect_right(self.starts, offset)

    # ------------------------------------------------------------------ commands

    def _command(self, words: list[Text], reader: Reader, before: Sequence[Text] = ()) -> None:
        """One simple command; ``before`` are the words in front of the ``bash -c`` it stands in."""
        if _base(words[0]) in _TALKING:
            return
        words = [*before, *words]
        inner = _inner_shell(words)
        if inner is not None:
            if reader.depth < MAX_NESTED:
                self._nested(*inner, reader)
            return
        at = next((i for i, word in enumerate(words) if _base(word).endswith(".py") or _base(word) in SUBMITTERS), None)
        if at is None:
            at = next((i for i, word in enumerate(words) if word.chars == "-" and i > 0), None)
            if at is None:  # a program in a variable
                at = next((i + 1 for i, word in enumerate(words[:-1]) if word.chars == "-c" and i > 0), None)
                at = at if at is not None and not words[at].known else None
            if at is not None and any(_PYTHON.match(_base(word)) for word in words[:at]):
                self._start(words, at, reader)
            return
        if _base(words[at]) in PREPARERS:
            return
        launch = self._launch(words, at, reader)
        if launch is None:
            self._start(words, at, reader)
        elif launch not in self.launches:
            self.launches.append(launch)

    def _start(self, words: Sequence[Text], at: int, reader: Reader) -> None:
        arguments = tuple(self._word(word) for word in words[at + 1 :])
        counts = gpu_count(words[:at], self.batch, submitted=False)
        started = Started(self._word(words[at]), arguments, counts, _environment(reader))
        if started not in self.started:
            self.started.append(started)

    def _nested(self, before: Sequence[Text], text: Text, reader: Reader) -> None:
        def command(words: list[Text], inner: Reader) -> None:
            self._command(words, inner, before)

        nested = Reader(text, command, reader.variables, reader.depth + 1, reader.budget)
        nested.exported |= reader.exported
        nested.held = reader.held
        nested.read()

    def _launch(self, words: list[Text], at: int, reader: Reader) -> Launch | None:
        program = _base(words[at])
        flags, overrides, opaque = self._arguments(words[at + 1 :])
        model = any(flag.name in PERFORMANCE_MODEL for flag in flags)
        performance = "performance" in words[at].plain.split("/")
        performs = model and (performance or program in PERFORMANCE_PROGRAMS)
        known = program == RUN_RECIPE or program in SUBMITTERS or performs
        named = any(flag.name in ("--recipe", *CONFIG_FILE_FLAGS) for flag in flags)
        dotted = any("." in override.text.partition("=")[0] for override in overrides)
        if not (known or named or dotted):
            return None
        launcher = None if performance or performs else "run_recipe" if known else "script"
        if performs:
            counts = benchmark_gpus(words[at + 1 :])
        else:
            counted = words[at + 1 :] if program in SUBMITTERS else words[:at]
            counts = gpu_count(counted, self.batch, submitted=program in SUBMITTERS)
        return Launch(
            self._word(words[at]),
            launcher,
            flags,
            overrides,
            opaque,
            counts,
            environment := _environment(reader),
            performs,
            _choices(flags, reader.held),
            {} if performs or program in SUBMITTERS else torchrun_facts(words[:at], self.batch, environment),
        )

    def _arguments(self, words: Sequence[Text]) -> _Arguments:
        flags: list[LaunchFlag] = []
        overrides: list[LaunchOverride] = []
        opaque: list[Word] = []
        rest = iter(range(len(words)))
        for i in rest:
            word = words[i]
            text = word.plain
            if _OPTION.match(text):
                name = text.partition("=")[0]
                value = None
                if "=" in word.chars:
                    value = self._word(word.part(word.chars.index("=") + 1))
                elif i + 1 < len(words) and _takes_value(name, words[i + 1]):
                    value = self._word(words[next(rest)])
                flags.append(LaunchFlag(name, value, self._word(word)))
            elif _OVERRIDE.match(text) and _OVERRIDE.match(word.bare):
                equals = word.chars.find("=")
                value_text = word.part(equals + 1) if equals >= 0 else word.part(len(word.chars))
                overrides.append(LaunchOverride(self._word(word), self._value(word, value_text, equals)))
            elif not word.known and text not in [other.text for other in opaque]:
                opaque.append(self._word(word))
        return tuple(flags), tuple(overrides), tuple(opaque)

    # ------------------------------------------------------------------ places

    def _word(self, text: Text) -> Word:
        start = text.at[0] if text.at else 0
        return self._place(text, start)

    def _value(self, word: Text, value: Text, equals: int) -> Word:
        """A value's place is where it is written beside its key, even where a variable holds it."""
        if not word.at:
            return self._place(value, 0)
        start = word.at[equals] + 1 if equals >= 0 else word.at[-1] + 1
        return self._place(value, start)

    def _place(self, text: Text, start: int) -> Word:
        line = self.line(start)
        first = self.starts[line - 1]
        last = self.starts[line] - 1 if line < len(self.starts) else len(self.source)
        end = max(min(self._written_end(start), last), start + 1)
        return Word(text.plain, text.known, text.defaults, line, start - first + 1, end - first + 1)

    def _written_end(self, start: int) -> int:
        """Where the word that starts at an offset ends in the script."""
        match = _ANY_QUOTED.match(self.source, start) or _WRITTEN.match(self.source, start)
        end = match.end() if match else start
        if match and self.source[end - 1] == "=" and (quoted := _ANY_QUOTED.match(self.source, end)):
            end = quoted.end()
        return end


def _inner_shell(words: Sequence[Text]) -> tuple[Sequence[Text], Text] | None:
    """The words in front of a ``bash -c TEXT`` (or ``eval TEXT``), and the text."""
    if words[0].chars == "eval":
        return (), joined(words[1:], " ")
    for i, word in enumerate(words[:-2]):
        if _base(word) in _SHELLS and re.fullmatch(r"-\w*c", words[i + 1].chars):
            return words[:i], words[i + 2]
    return None


def _choices(flags: Sequence[LaunchFlag], held: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What an unknown recipe is called when each variable in it holds one of the texts that it ever held."""
    word = next((flag.value for flag in reversed(flags) if flag.name == "--recipe" and flag.value is not None), None)
    if word is None or word.known:
        return ()
    waiting, found = [word.text], dict[str, None]()
    for _ in range(MAX_CHOICES):
        if not waiting:
            break
        text = waiting.pop(0)
        piece = _PIECE.search(text)
        if piece is None:
            found[text] = None
        else:
            texts = [other for other in held.get(piece[1], ()) if f"${{shell:{piece[1]}}}" not in other]
            waiting += [text[: piece.start()] + other + text[piece.end() :] for other in dict.fromkeys(texts)]
    return tuple(name for name in found if name.isidentifier())


def _base(word: Text) -> str:
    """The last part of a path."""
    return word.plain.rpartition("/")[2]


def _takes_value(name: str, following: Text) -> bool:
    meanings = flags_named(name)
    if meanings:
        return any(flag.takes_value for flag in meanings)
    if name in SWITCHES:
        return False
    text = following.plain
    return not text.startswith("-") and not (_OVERRIDE.match(text) and name not in CONFIG_FILE_FLAGS)


def _environment(reader: Reader) -> dict[str, str]:
    held: dict[str, Value] = {name: reader.variables[name] for name in reader.exported if name in reader.variables}
    held.update(reader.prefixed)
    return {name: value.plain for name, value in held.items() if isinstance(value, Text) and value.known}
