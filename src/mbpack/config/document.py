"""A configuration file as OmegaConf would read it, with the place of every value."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import yaml
from msgspec import Struct, field

from mbpack.facts.patterns import lazy

from . import builder
from .composer import MAX_DEPTH, TooDeep, compose
from .items import Item, Problem, Span, walk
from .merging import TooMany
from .scalars import MISSING, Interpolation
from .syntax import explain, places

__all__ = ["MISSING", "Document", "Interpolation", "Item", "Problem", "Span", "parse", "walk"]

MAX_BYTES: Final = 4_000_000
"""Largest file read. A complete configuration with everything in it has about 50 kB."""

MAX_PROBLEMS: Final = 50
"""Most problems of one document that are kept, of each kind: fatal ones and notes."""

CONTAINER: Final = "ConfigContainer"
_TARGET: Final = "_target_"
_COMMENT: Final = lazy(r"^[ \t]*(#.*)$", re.MULTILINE)
_TRAILING: Final = lazy(r"[ \t](#[ \t]*mbpack[ \t]*:.*)$", re.MULTILINE)
_OTHER_ENCODINGS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)


class Document(Struct):
    """One file.

    path      where it came from, or None.
    text      its characters, without a byte order mark, line ends as they are.
    root      the mapping at the top (an empty one for an empty file); None if the text could not be read as a mapping.
    problems  everything OmegaConf would object to, and a few notes, in order of writing.
    encoding  the codec of the bytes; `bom` whether they start with its byte order mark; `newline` the first line end.
    inherited whether it was read because another file builds on it: then others may too, and it is not to be edited.
    deleted   the keys that it takes out of what lies below it, whatever it holds there itself: arguments do so (``~key``).
    language  "yaml", or "python" for what a program sets: then values are set on the objects themselves.
    made      of a program: paths of objects that it makes anew, so that nothing of what lies below is left there.
    opaque    of a program, or of a file that is not here: paths with the reason why what is not written below them is not known.
    strings   of a program: where its strings stand, so that nothing in them is taken for a comment.
    shared    of a program: where values start that several keys take; `reread` makes the document of a changed text.
    """

    path: str | None
    text: str
    root: Item | None = None
    problems: list[Problem] = field(default_factory=list)
    encoding: str = "utf-8"
    bom: bool = False
    inherited: bool = False
    deleted: tuple[tuple[str, ...], ...] = ()
    language: str = "yaml"
    made: frozenset[tuple[str, ...]] = frozenset()
    opaque: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    strings: list[Span] | None = None
    shared: frozenset[int] = frozenset()
    reread: Callable[[str], Document | None] | None = None

    @property
    def newline(self) -> str:
        at = self.text.find("\n")
        return "\r\n" if at > 0 and self.text[at - 1] == "\r" else "\n"

    @property
    def readable(self) -> bool:
        """Whether OmegaConf would read the file."""
        return self.root is not None and not any(problem.fatal for problem in self.problems)

    def encode(self, text: str) -> bytes:
        """Text as the bytes of this file: `encode(document.text)` gives back what was parsed."""
        mark = "\ufeff" if self.bom else ""
        return (mark + text).encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "strict")

    def comments(self) -> Iterator[tuple[int, str]]:
        """Line number and text (from the ``#`` on) of every line that holds only a comment.

        A ``#`` at the start of a line inside a block scalar or a quoted string is text, not a comment.
        """
        text = self.text
        if "#" not in text:
            return
        strings: list[Span] | None = None
        begin = self.root.start if self.root is not None and self.language == "yaml" else 0
        line, counted = 1, 0
        for match in _COMMENT.finditer(text):
            start = match.start(1)
            line += text.count("\n", counted, start)
            counted = start
            if start >= begin:
                strings = self._long_strings() if strings is None else strings
                if _inside(start, strings):
                    continue
            yield line, match[1].rstrip(" \t\r")

    def trailing_directives(self) -> Iterator[tuple[int, str]]:
        """Line number and text (from the ``#`` on) of every ``# mbpack:`` comment behind something else on its line."""
        strings: list[Span] | None = None
        line, counted = 1, 0
        for match in _TRAILING.finditer(self.text):
            start = match.start(1)
            before = self.text[self.text.rfind("\n", 0, start) + 1 : start].lstrip(" \t")[:1]
            if before in ("", "#") or before.isspace():
                continue  # a line that is a comment
            line += self.text.count("\n", counted, start)
            counted = start
            if strings is None:
                strings = self._strings()
            if not _inside(start, strings):
                yield line, match[1].rstrip()

    def _long_strings(self) -> list[Span]:
        """The places of quoted and block scalars of several lines."""
        if self.strings is None and not any(sign in self.text for sign in "|>'\""):
            return []
        if self.strings is None and self.root is not None:
            long = (item.span for _, item in walk(self.root) if item.quoted and item.over_lines)
            return sorted(long, key=lambda span: span.start)
        return [span for span in self._strings() if span.line != span.end_line]

    def _strings(self) -> list[Span]:
        """The places of quoted and block scalars, in the order of the text."""
        if self.strings is not None:
            return self.strings
        if self.root is None:
            return []
        return sorted((item.span for _, item in walk(self.root) if item.quoted), key=lambda span: span.start)


def of_nothing_known(why: str, path: str | None, text: str, line: int) -> Document:
    """A layer of which nothing is known, and why; ``text`` and ``line`` are where it is spoken of."""
    return Document(path, text, Item({}, Span(line, 1, line, 1, 0, 0)), opaque={(): why})


def _inside(place: int, strings: list[Span]) -> bool:
    """Whether a place of the text is in one of the strings, which are in order and do not overlap."""
    before = bisect_right(strings, place, key=lambda span: span.start) - 1
    return before >= 0 and place < strings[before].end


def parse(data: bytes | str, path: str | None = None) -> Document:
    """The document in the bytes (or text) of a file. Never raises; time and memory are bounded by the size."""
    document = _decode(data, path)
    if not document.problems:
        _read(document)
    return document


def _decode(data: bytes | str, path: str | None) -> Document:
    if isinstance(data, str):
        bom = data.startswith("\ufeff")
        document = Document(path, data[1:] if bom else data, bom=bom)
    else:
        document = _decode_bytes(data, path)
    if len(data) > MAX_BYTES:
        message = f"the file has more than {MAX_BYTES // 1_000_000} MB: this is not a configuration"
        document.problems.append(Problem("too-large", message, Span(1, 1, 1, 1, 0, 0), True))
    return document


def _decode_bytes(data: bytes, path: str | None) -> Document:
    for mark, codec, name in _OTHER_ENCODINGS:
        if data.startswith(mark):
            message = f"the file is saved as {name}: save it as UTF-8"
            problem = Problem("encoding", message, Span(1, 1, 1, 1, 0, 0), True)
            try:
                return Document(path, data[len(mark) :].decode(codec), None, [problem], codec, True)
            except UnicodeDecodeError:
                return Document(path, data.decode("latin-1"), None, [problem], "latin-1")
    bom = data.startswith(codecs.BOM_UTF8)
    if bom:
        data = data[len(codecs.BOM_UTF8) :]
    try:
        return Document(path, data.decode("utf-8"), bom=bom)
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "surrogateescape")
        at = len(data[: error.start].decode("utf-8"))
        message = f"the byte 0x{data[error.start]:02X} is not UTF-8: save the file as UTF-8"
        return Document(path, text, None, [Problem("encoding", message, places(text, at, at + 1), True)], bom=bom)


def _read(document: Document) -> None:
    text = document.text
    try:
        node = compose(text)
        if node is None:
            document.root = Item({}, places(text, 0))
            return
        item, problems = builder.build(node, text)
        document.problems = _capped(problems)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        document.problems = [explain(error, text)]
    except (TooDeep, RecursionError):
        message = f"values are nested more than {MAX_DEPTH} deep: this is not a configuration"
        document.problems = [Problem("too-deep", message, places(text, 0), True)]
    except TooMany:
        message = "aliases unfold into hundreds of thousands of values: write the values out"
        document.problems = [Problem("alias-bomb", message, places(text, 0), True)]
    else:
        _accept(document, item)


def is_whole(root: Item) -> bool:
    """Whether a file is a whole configuration: its top-level ``_target_`` is the container."""
    target = root.value.get(_TARGET) if isinstance(root.value, dict) else None
    return target is not None and isinstance(target.value, str) and target.value.rpartition(".")[2] == CONTAINER


def _capped(problems: list[Problem]) -> list[Problem]:
    """At most MAX_PROBLEMS that refuse the file and as many notes."""
    if len(problems) <= MAX_PROBLEMS:
        return problems
    fatal = [problem for problem in problems if problem.fatal][:MAX_PROBLEMS]
    notes = [problem for problem in problems if not problem.fatal][:MAX_PROBLEMS]
    return sorted(fatal + notes, key=lambda problem: problem.span.start)


def _accept(document: Document, item: Item) -> None:
    """Takes the root, if it is a mapping. Like OmegaConf, reads nothing as an empty one and one word as a key."""
    value = item.value
    if isinstance(value, dict):
        document.root = item
        if _TARGET in value and is_whole(item):
            from .saved import read_as_saved

            read_as_saved(document)
        return
    if value is None:
        document.root = Item({}, item.span)
        return
    what = "a list" if isinstance(value, list) else "a single value"
    message = f"the file holds {what}, not sections with keys: write `section:` and indented `key: value` lines"
    word = isinstance(value, str) and not item.quoted and "\n" not in value
    if word:
        document.root = Item({str(value): Item(None, item.span, item.span)}, item.span)
        document.problems = [problem for problem in document.problems if problem.kind != "interpolation"]
    document.problems.append(Problem("not-a-mapping", message, item.span, not word))
