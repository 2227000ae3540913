"""Simple commands of a shell script in order, with the variables as they are at that point. Nothing is executed.

Blocks that may or may not run (``if``, ``case``, loops, functions, ``&&``) leave behind what all their ways agree on;
the rest is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, field

from mbpack.config.shell.expand import Expander
from mbpack.config.shell.text import MAX_VALUE, NAME, Text, Value, joined, merged, unknown

#: Commands and blocks of one script that are read; variables that are followed.
MAX_COMMANDS, MAX_VARIABLES = 5_000, 1_000
#: Texts of one variable that are remembered.
MAX_HELD = 32

_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_REDIRECT = re.compile(r"\d{0,3}(<<<|<<-?|<>|<&|>>|>&|>\||&>>?|[<>])")
_HEREDOC_END = re.compile(r"[ \t]*(['\"]?)([^\s'\";&|<>()]+)\1")
_FUNCTION = re.compile(r"\([ \t]*\)\s*(\{?)")
_NAMED_FUNCTION = re.compile(r"[ \t]*[\w:.-]+[ \t]*(?:\([ \t]*\))?\s*(\{?)")
_CASE_IN = re.compile(r"\s*in(?=\s)")
_OPENERS = {"if": "fi", "for": "done", "while": "done", "until": "done", "select": "done", "case": "esac"}
_DECLARE = frozenset({"export", "declare", "local", "readonly", "typeset"})
_SETTERS = frozenset({"read", "mapfile", "readarray", "getopts", "unset"})


class _Block(Struct):
    """A block that may run, may not, or runs one of several branches; ``runs`` marks one that always does."""

    closer: str
    before: dict[str, Value] = field(default_factory=dict)
    runs: bool = False
    branches: list[dict[str, Value]] = field(default_factory=list)
    exhaustive: bool = False
    open: bool = True  # whether the current branch counts (a case is closed after `;;`)
    loop_head: bool = False


class Reader(Expander):
    """Reads a script, or the text of a nested ``bash -c``.

    ``command`` is called with the expanded words of every simple command and the reader itself, whose ``variables``
    then hold what the script has assigned so far; ``exported`` names those its environment gets, ``prefixed`` holds
    what stands in front of it (``X=1 command``). ``comments`` collects (offset, text).
    """

    def __init__(
        self,
        text: Text,
        command: Callable[[list[Text], Reader], None],
        variables: dict[str, Value] | None = None,
        depth: int = 0,
        budget: list[int] | None = None,
    ) -> None:
        super().__init__(text, dict(variables or {}), depth)
        self.comments: list[tuple[int, str]] = []
        self.exported: set[str] = set()
        #: Every text that a variable has held so far.
        self.held: dict[str, list[str]] = {}
        self.prefixed: dict[str, Value] = {}
        self.budget = budget if budget is not None else [MAX_COMMANDS]
        self._command = command
        self._blocks: list[_Block] = []
        self._heredocs: list[str] = []
        self._words: list[Text] = []
        self._assigned: list[tuple[str, Value]] = []

    def read(self) -> None:
        """Go through the whole text once."""
        before = ""  # the operator in front of the command
        while self.budget[0] > 0:
            self._blanks()
            if self.i >= self.n:
                self._finish(before)
                return
            char = self.chars[self.i]
            if char == "#":
                end = self._find("\n", self.i)
                self.comments.append((self.offset(), self.chars[self.i : end]))
                self.i = end
            elif redirect := _REDIRECT.match(self.chars, self.i):
                self._redirect(redirect)
            elif char in "\n;&|()":
                before = self._end_command(char, before)
            elif self._words or not self._assignment():
                before = self._next_word(before)

    def _next_word(self, before: str) -> str:
        start = self.i
        fields = self.word()
        self.i += self.i == start  # a character that starts no word
        first = not self._words and not self._assigned and len(fields) == 1
        if first and self.chars[start : self.i] == fields[0].chars and self._keyword(fields[0].chars):
            return ""
        if first and fields[0].chars in _DECLARE:
            self._declare(exports=fields[0].chars == "export")
        else:
            self._words.extend(fields)
        return before

    def _end_command(self, char: str, before: str) -> str:
        if char == "(" and len(self._words) == 1 and not self._assigned and self._function(_FUNCTION):
            self._words = []
            return ""
        operator = next((two for two in ("&&", "||", ";;", "|&") if self.chars.startswith(two, self.i)), char)
        self.i += len(operator)
        if operator == ")" and self._in_case():
            block = self._blocks[-1]
            block.exhaustive |= bool(self._words) and self._words[-1].chars == "*"
            block.open = True
            self._words, self._assigned = [], []
        else:
            self._finish(before)
            self._after(operator)
        return operator

    def _finish(self, before: str) -> None:
        words, assigned = self._words, self._assigned
        self._words, self._assigned = [], []
        if not words:
            for name, value in assigned:
                old = self.variables.get(name)
                self._set(name, merged(old, value, name, self.offset()) if before in ("&&", "||") else value)
            return
        self.budget[0] -= 1
        self.prefixed = dict(assigned)
        name = words[0].chars
        if name in _SETTERS:
            for word in words[1:]:
                if NAME.fullmatch(word.chars):
                    self._set(word.chars, unknown(word.chars, word.at[0]))
        elif self._blocks and self._blocks[-1].loop_head and len(words) >= 2 and words[1].chars == "in":
            items = words[2:]
            self._set(name, items[0] if len(items) == 1 and items[0].known else unknown(name, self.offset()))
        else:
            self._command(words, self)

    def _set(self, name: str, value: Value) -> None:
        if name in self.variables or len(self.variables) < MAX_VARIABLES:
            self.variables[name] = value
        if isinstance(value, Text) and len(self.held.setdefault(name, [])) < MAX_HELD:
            self.held[name].append(value.plain)

    def _blanks(self) -> None:
        while self.i < self.n:
            step = 1 if self.chars[self.i] in " \t\r" else self.continuation()
            if not step:
                return
            self.i += step

    # ------------------------------------------------------------------ blocks

    def _after(self, operator: str) -> None:
        if operator == "\n":
            self._skip_heredocs()
        elif operator == "(":
            if self.chars.startswith("(", self.i):  # an arithmetic command
                self.i = self.closing(self.i + 1, ")") + 1
                self.i += self.chars.startswith(")", self.i)
            else:
                self._open(_Block(")", dict(self.variables)))
        elif operator == ")":
            if self._blocks and self._blocks[-1].closer == ")":
                self.variables = self._blocks.pop().before
        elif operator == ";;" and self._in_case():
            self._branch()

    def _open(self, block: _Block) -> None:
        self.budget[0] -= 1
        self._blocks.append(block)

    def _in_case(self) -> bool:
        return bool(self._blocks) and self._blocks[-1].closer == "esac"

    def _function(self, shape: re.Pattern[str]) -> bool:
        """A function's body is a block that may or may not run."""
        match = shape.match(self.chars, self.i)
        if match is None:
            return False
        self.i = match.end()
        if match[1]:
            self._open(_Block("}", dict(self.variables)))
        return True

    def _keyword(self, name: str) -> bool:
        if name in _OPENERS:
            self._open(_Block(_OPENERS[name], dict(self.variables), loop_head=name in ("for", "select")))
            if name == "case":
                self._blanks()
                self.word()  # the word decides nothing that can be told here
                match = _CASE_IN.match(self.chars, self.i)
                self.i = match.end() if match else self.i
                self._blocks[-1].open = False
        elif name in ("else", "elif"):
            if self._blocks and self._blocks[-1].closer == "fi":
                self._branch()
                self._blocks[-1].open = True
                self._blocks[-1].exhaustive = name == "else"
        elif name == "do":
            if self._blocks:
                self._blocks[-1].loop_head = False
        elif name in ("fi", "done", "esac", "}"):
            self._close(name)
        elif name == "{":
            self._open(_Block("}", runs=True))
        elif name == "function":
            return self._function(_NAMED_FUNCTION)
        elif name not in ("then", "!", "time"):
            return False
        return True

    def _branch(self) -> None:
        block = self._blocks[-1]
        if block.open:
            block.branches.append(self.variables)
        block.open = False
        self.variables = dict(block.before)

    def _close(self, closer: str) -> None:
        if not self._blocks or self._blocks[-1].closer != closer:
            return
        block = self._blocks.pop()
        if block.runs:
            return
        ways = [*block.branches, self.variables] if block.open else block.branches
        if not block.exhaustive or not ways:
            ways = [block.before, *ways]
        result = ways[0]
        for other in ways[1:]:
            changed = [name for name in {*result, *other} if result.get(name) is not other.get(name)]
            result = dict(result)
            for name in changed:
                result[name] = merged(result.get(name), other.get(name), name, self.offset())
        self.variables = result

    # ------------------------------------------------------------------ assignments, redirections

    def _assignment(self) -> bool:
        match = _ASSIGN.match(self.chars, self.i)
        if match is None:
            return False
        name = match[1]
        self.i = match.end()
        value: Value = self._array() if self.chars.startswith("(", self.i) else joined(self.word(split=False))
        self._assigned.append((name, self._appended(name, value) if match[2] else value))
        return True

    def _appended(self, name: str, more: Value) -> Value:
        old = self.variables.get(name)
        if isinstance(more, list):
            start = old if isinstance(old, list) else [] if old is None else [old]
            return [*start, *more] if len(start) + len(more) <= MAX_VALUE else [unknown(name, self.offset())]
        if isinstance(old, list):
            return [joined((old[0], more)), *old[1:]] if old else [more]
        return joined((old if old is not None else unknown(name, self.offset()), more))

    def _array(self) -> list[Text]:
        self.i += 1
        elements: list[Text] = []
        while self.i < self.n:
            self._blanks()
            char = self.chars[self.i : self.i + 1]
            if char == ")":
                self.i += 1
                break
            start = self.i
            if char == "#":
                self.i = self._find("\n", self.i)
            else:
                elements.extend(self.word())
            self.i += self.i == start
        long = sum(len(text.chars) for text in elements) > MAX_VALUE
        return [unknown("long", self.offset())] if long else elements

    def _declare(self, exports: bool) -> None:
        """The rest of an ``export X=...`` or ``local -r X=...`` line."""
        while True:
            self._blanks()
            if self.i >= self.n or self.chars[self.i] in "\n;&|()#<>":
                return
            start = self.i
            names = [self._assigned[-1][0]] if self._assignment() else [word.chars for word in self.word()]
            self.i += self.i == start
            if exports:
                self.exported.update(names)

    def _redirect(self, redirect: re.Match[str]) -> None:
        self.i = redirect.end()
        if redirect[1] in ("<<", "<<-"):
            match = _HEREDOC_END.match(self.chars, self.i)
            if match:
                self.i = match.end()
                self._heredocs.append(match[2])
            return
        self._blanks()
        if self.chars.startswith("(", self.i):
            self.i = self.closing(self.i + 1, ")") + 1
        else:
            self.word()

    def _skip_heredocs(self) -> None:
        for end in self._heredocs:
            start = self.i
            while self.i < self.n:
                newline = self._find("\n", self.i)
                line = self.chars[self.i : newline].strip()
                self.i = min(newline + 1, self.n)
                if line == end:
                    break
            self.bodies.append(self.text.part(start, self.i))
        self._heredocs = []
