"""From YAML text to PyYAML nodes, fast and exactly as OmegaConf's parser would.

OmegaConf reads with PyYAML's Python parser. The C parser (libyaml) is about twenty times faster and, apart from a few
writings, accepts exactly the same texts and reads them alike; texts with such a writing, and texts that the C parser
refuses, go through the Python parser.
"""

from __future__ import annotations

import operator
import re
from typing import Any, Final, TypeAlias

import yaml
from yaml.composer import Composer
from yaml.nodes import ScalarNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from .scalars import ScalarError, resolve

try:
    from yaml._yaml import CParser
except ImportError:  # PyYAML built without libyaml
    CParser = None  # type: ignore[assignment, misc]

Node: TypeAlias = Any
"""A PyYAML node, whose `tag` holds what `_Resolve.resolve` answered where the text gives no tag."""

MAX_DEPTH: Final = 80
"""Deepest nesting read. OmegaConf itself gives up (RecursionError) at 80 to 90 levels."""

MAX_PYTHON_CHARS: Final = 500_000
"""Longest text given to the Python parser (about two seconds); longer ones are judged by the C parser alone."""

# libyaml composes recursively, and its older versions (in PyYAML up to 6.0.3) without a limit: the C stack would overflow.
# Brackets nest no deeper than there are brackets; a block collection starts in a column that the spaces and indicators
# before it fill, so block collections nest no deeper than twice the longest such run.
_MANY_BRACKETS: Final = 500
_DEEP_BLOCK: Final = r"[ ?:-]{200}"
_LIBYAML_DEPTH: Final = "maximum nesting depth"

# Writings that libyaml reads differently: tabs as separators, a byte order mark inside, tags, `|#`, `?` inside
# brackets; and a `?` key without a value at the end of the text, whose place it reports one line too far.
_OTHER_WRITING: Final = r"(?m)(?:^|[\s,\[{}\]:?\"'-])!|[|>][-+0-9]*#|\?\s|\?\Z"
_BRACKET: Final = r"(?<!\$)[\[{]"


class TooDeep(Exception):
    """Nesting beyond MAX_DEPTH."""


class _Kind:
    """Stands for the tag of an untagged node."""


TEXT: Final = _Kind()  # a scalar that is a string
COLLECTION: Final = _Kind()  # a mapping or a sequence


class _Words(dict[str, Any]):
    """What unquoted words are read as; keys and values repeat, in one file and from file to file."""

    def __missing__(self, text: str) -> Any:
        try:
            value = resolve(text)
        except ScalarError as error:
            return error
        answer = TEXT if value is text else value
        if len(self) < _MOST_WORDS and len(text) < _LONGEST_WORD:
            self[text] = answer
        return answer


_WORDS: Final = _Words()
_MOST_WORDS: Final = 20_000
_LONGEST_WORD: Final = 80


class _Resolve:
    """The hooks a PyYAML composer calls for every node.

    `resolve` is asked for the tag of an untagged node and answers with the value itself (or TEXT, or a ScalarError):
    one call instead of a tag look-up, a constructor look-up and a second parse of the word.
    """

    # Called for every node with a fixed number of arguments and an unused result: cheap built-ins are enough.
    descend_resolver = staticmethod(operator.is_)
    ascend_resolver = staticmethod(bool)

    @staticmethod
    def resolve(kind: type, text: Any, implicit: Any) -> Any:
        if kind is not ScalarNode:
            return COLLECTION
        return _WORDS[text] if implicit[0] else TEXT


class _PythonComposer(Reader, Scanner, Parser, _Resolve, Composer):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)


if CParser is not None:

    class _CComposer(_Resolve, CParser):
        """The same with libyaml."""


def compose(text: str) -> Node | None:
    """The root node of a one-document text, None for an empty one.

    Raises yaml.YAMLError for what OmegaConf's parser refuses, TooDeep for nesting that could exhaust the stack.
    """
    if CParser is not None and _may_be_deep(text):
        _check_depth(text)
    if CParser is None or _reads_differently(text):
        return _compose_python(text)
    try:
        node: Node | None = _CComposer(text).get_single_node()
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        if _LIBYAML_DEPTH in str(error):
            raise TooDeep from None
        if len(text) > MAX_PYTHON_CHARS:
            raise
        return _compose_python(text)
    return node


def _reads_differently(text: str) -> bool:
    if len(text) > MAX_PYTHON_CHARS:
        return False
    if "\t" in text or "\ufeff" in text:
        return True
    if ("!" in text or "|" in text or ">" in text or "?" in text) and re.search(_OTHER_WRITING, text):
        return True
    return "?" in text and re.search(_BRACKET, text) is not None


def _may_be_deep(text: str) -> bool:
    if text.count("[") + text.count("{") > _MANY_BRACKETS:
        return True
    if re.match(_DEEP_BLOCK, text) or re.search("\n" + _DEEP_BLOCK, text):
        return True
    odd_breaks = not text.isascii() and any(sign in text for sign in "\x85\u2028\u2029")
    return odd_breaks or ("\r" in text and text.count("\r") != text.count("\r\n"))


def _compose_python(text: str) -> Node | None:
    try:
        node: Node | None = _PythonComposer(text).get_single_node()
    except RecursionError:
        raise TooDeep from None
    return node


def _check_depth(text: str) -> None:
    parser = CParser(text)
    depth = 0
    try:
        while (event := parser.get_event()) is not None:
            kind = event.__class__.__name__
            if kind in {"SequenceStartEvent", "MappingStartEvent"}:
                depth += 1
                if depth > MAX_DEPTH:
                    raise TooDeep
            elif kind in {"SequenceEndEvent", "MappingEndEvent"}:
                depth -= 1
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        if _LIBYAML_DEPTH in str(error):
            raise TooDeep from None
        # Any other error is met again when composing.
