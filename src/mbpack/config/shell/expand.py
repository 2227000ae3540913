"""Expansion of one shell word: quotes, variables, defaults, arrays. What only running could tell is unknown."""

from __future__ import annotations

from mbpack.config.shell.text import EMPTY, NAME, Fields, Text, Value, defaulted, joined, unknown

META = frozenset(" \t\r\n;&|()<>")
#: How deep defaults inside defaults, and commands inside commands, are followed.
MAX_DEPTH = 12
#: Pipelines behind an ``echo`` that change nothing but blanks, as upstream's scripts write them.
_SQUEEZERS = frozenset((r"tr \n  ", r"tr -s  ", r"tr -d \n", r"sed s/  \+/ /g", r"sed s/  */ /g", "xargs"))


class Expander:
    """A position in some text, the variables assigned so far, and the words that are read from there."""

    def __init__(self, text: Text, variables: dict[str, Value], depth: int = 0) -> None:
        self.text = text
        self.chars = text.chars
        self.variables = variables
        self.depth = depth
        self.i, self.n = 0, len(text.chars)
        #: Texts that the script writes somewhere or keeps in a variable (``<<EOF``, ``$(cat <<EOF)``): perhaps scripts themselves.
        self.bodies: list[Text] = []

    def word(self, split: bool = True, whole: bool = False) -> list[Text]:
        """The next word as the fields it expands to; ``whole`` takes the rest of the text as one word."""
        fields = Fields()
        while self.i < self.n and (whole or self.chars[self.i] not in META):
            char = self.chars[self.i]
            if char == "\\":
                self._escape(fields)
            elif char == "'":
                self._single(fields)
            elif char == '"':
                self._double(fields)
            elif char == "$":
                self._dollar(fields, quoted=not split)
            elif char == "`":
                self._backquote(fields)
            else:
                end = self.i + 1
                while end < self.n and self.chars[end] not in META and self.chars[end] not in "\\'\"$`":
                    end += 1
                fields.add(self.text.part(self.i, end))
                self.i = end
        self.i = min(self.i, self.n)
        return fields.all()

    def offset(self, index: int | None = None) -> int:
        """Where in the script the character at an index (the position) was written."""
        index = self.i if index is None else index
        return self.text.at[min(index, self.n - 1)] if self.n else 0

    def continuation(self) -> int:
        """Length of a backslash and line end at the position; 0 when there is none."""
        for end in ("\\\n", "\\\r\n"):
            if self.chars.startswith(end, self.i):
                return len(end)
        return 0

    # ------------------------------------------------------------------ quotes

    def _escape(self, fields: Fields) -> None:
        skip = self.continuation()
        if not skip and self.i + 1 < self.n:
            fields.add(self.text.part(self.i + 1, self.i + 2))
        self.i += skip or 2

    def _single(self, fields: Fields) -> None:
        end = self._find("'", self.i + 1)
        fields.add(self.text.part(self.i + 1, end))
        self.i = end + 1

    def _double(self, fields: Fields) -> None:
        fields.add(EMPTY)
        self.i += 1
        while self.i < self.n and self.chars[self.i] != '"':
            char = self.chars[self.i]
            if char == "\\" and (skip := self.continuation()):
                self.i += skip
            elif char == "\\" and self.i + 1 < self.n and self.chars[self.i + 1] in '"\\$`':
                fields.add(self.text.part(self.i + 1, self.i + 2))
                self.i += 2
            elif char == "$":
                self._dollar(fields, quoted=True)
            elif char == "`":
                self._backquote(fields)
            else:
                end = self.i + 1
                while end < self.n and self.chars[end] not in '"\\$`':
                    end += 1
                fields.add(self.text.part(self.i, end))
                self.i = end
        self.i += 1

    def _backquote(self, fields: Fields) -> None:
        fields.add(unknown("command", self.offset()))
        self.i = self._find("`", self.i + 1) + 1

    def _find(self, char: str, start: int) -> int:
        end = self.chars.find(char, start)
        return self.n if end < 0 else end

    # ------------------------------------------------------------------ $

    def _dollar(self, fields: Fields, quoted: bool) -> None:
        start, offset = self.i, self.offset()
        self.i += 1
        following = self.chars[self.i : self.i + 1]
        if self.chars.startswith("((", self.i):
            self.i = self.closing(self.i + 1, ")") + 1
            fields.add(unknown("arithmetic", offset))
        elif following == "(":
            end = self.closing(self.i + 1, ")")
            inner = self.text.part(self.i + 1, end)
            self.i = end + 1
            if inner.chars.lstrip().startswith("cat <<"):
                self.bodies.append(inner.part(inner.chars.find("\n") + 1))
            _put(fields, self._echoed(inner) or unknown("command", offset), quoted)
        elif following == "{":
            end = self.closing(self.i + 1, "}")
            inner = self.text.part(self.i + 1, end)
            self.i = end + 1
            _put(fields, self._parameter(inner, offset), quoted, star=inner.chars.endswith("[*]"))
        elif following == "'" and not quoted:
            self._single(fields)
        elif match := NAME.match(self.chars, self.i):
            self.i = match.end()
            _put(fields, self._held(match[0], offset), quoted)
        elif following and following in "0123456789@*#?$!-":
            fields.add(unknown("argument", offset))
            self.i += 1
        else:
            fields.add(self.text.part(start, self.i))

    def _held(self, name: str, offset: int) -> Text:
        value = self.variables.get(name)
        if isinstance(value, list):
            return value[0] if value else EMPTY
        return value if value is not None else unknown(name, offset)

    def _parameter(self, inner: Text, offset: int) -> Value:
        """``${...}``: a variable, an array, or a variable with a default; everything else is unknown."""
        match = NAME.match(inner.chars)
        if match is None:
            return unknown("argument", offset)
        name, rest = match[0], inner.part(match.end())
        if not rest.chars:
            return self._held(name, offset)
        if rest.chars.startswith("["):
            return self._element(name, rest.chars[1:-1], offset)
        colon = rest.chars.startswith(":")
        operator, argument = rest.chars[colon : colon + 1], rest.part(colon + 1)
        if not operator or operator not in "-=+?":
            return unknown(name, offset)
        held = self._held(name, offset) if name in self.variables else None
        empty = colon and held is not None and not held.bare
        if operator == "+":
            if held is None or not held.known:
                return unknown(name, offset)
            return EMPTY if empty else self._filled(argument)
        if held is not None and not empty:
            return held
        if operator == "?":
            return unknown(name, offset)
        default = self._filled(argument)
        if held is None:
            default = defaulted(default, name, default.at[0] if default.at else offset)
        if operator == "=":
            self.variables[name] = default
        return default

    def _element(self, name: str, index: str, offset: int) -> Value:
        value = self.variables.get(name)
        if index in ("@", "*"):
            return value if isinstance(value, list) else self._held(name, offset)
        if index.isdecimal() and len(index) < 6 and isinstance(value, list):
            before = value[: int(index) + 1]
            if len(before) == int(index) + 1 and all(text.known for text in before):
                return before[-1]
        return unknown(name, offset)

    def _filled(self, text: Text) -> Text:
        """A default's own text, with its variables filled in."""
        if self.depth >= MAX_DEPTH:
            return unknown("nested", text.at[0] if text.at else 0)
        return joined(Expander(text, self.variables, self.depth + 1).word(split=False, whole=True), " ")

    def _echoed(self, inner: Text) -> Text | None:
        """``$(echo "$X" | tr '\\n' ' ')`` and the like, which only squeeze blanks: the text that is echoed."""
        if self.depth >= MAX_DEPTH or not inner.chars.lstrip().startswith("echo "):
            return None
        reader = Expander(inner, dict(self.variables), self.depth + 1)
        stages: list[list[Text]] = [[]]
        while reader.i < reader.n:
            start = reader.i
            stages[-1].extend(reader.word())
            if reader.i < reader.n and reader.chars[reader.i] == "|":
                stages.append([])
            elif reader.i < reader.n and reader.chars[reader.i] not in " \t":
                return None
            reader.i += reader.i == start or reader.i < reader.n
        if any(" ".join(word.chars for word in words) not in _SQUEEZERS for words in stages[1:]):
            return None
        words = stages[0][1:]
        return joined(words, " ") if words and not words[0].chars.startswith("-") else None

    def closing(self, i: int, closer: str) -> int:
        """Index of the closer that belongs to the opener before ``i``; the end of the text when there is none."""
        stack, quotes = [closer], 0
        while i < self.n:
            char, top = self.chars[i], stack[-1]
            if char == "\\":
                i += 2
                continue
            if char == top:
                stack.pop()
                quotes -= char == '"'
                if not stack:
                    return i
            elif char == '"':
                stack.append('"')
                quotes += 1
            elif char == "'" and not quotes:
                i = self._find("'", i + 1)
            elif char == "$" and self.chars[i + 1 : i + 2] in ("(", "{"):
                stack.append(")" if self.chars[i + 1] == "(" else "}")
                i += 1
            elif char == "(" and top == ")":
                stack.append(")")
            i += 1
        return self.n


def _put(fields: Fields, value: Value, quoted: bool, star: bool = False) -> None:
    add = fields.add if quoted else fields.split
    if isinstance(value, Text):
        add(value)
    elif quoted and star:
        add(joined(value, " "))
    else:
        for index, element in enumerate(value):
            if index:
                fields.next()
            add(element)
