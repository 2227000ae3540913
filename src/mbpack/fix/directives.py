"""The comments of a file that speak to mbpack: the release they name, the rules they keep quiet."""

from __future__ import annotations

import re

from msgspec.structs import replace

from mbpack.config.document import Document, parse
from mbpack.fix.state import State

_BRIDGE = re.compile(r"(#[ \t]*mbpack[ \t]*:[^\r\n]*?\bbridge=)(\S+)")


def with_release(state: State, text: str) -> State:
    """The state with the release of every directive replaced; files without one stay as they are."""
    return replace(state, documents=tuple(_with_release(document, text) for document in state.documents))


def _with_release(document: Document, release: str) -> Document:
    lines = {line for line, comment in document.comments() if _BRIDGE.match(comment)}
    if not lines:
        return document
    written = document.text.split("\n")
    for line in lines:
        written[line - 1] = _BRIDGE.sub(lambda match: match[1] + release, written[line - 1], count=1)
    edited = parse(("\ufeff" if document.bom else "") + "\n".join(written), document.path)
    edited.encoding = document.encoding
    return edited


def without_ignore(state: State, code: str) -> State:
    """The state without the comments of their own line that ignore one rule alone."""
    return replace(state, documents=tuple(_without_ignore(document, code) for document in state.documents))


def _without_ignore(document: Document, code: str) -> Document:
    wanted = re.compile(rf"#[ \t]*mbpack[ \t]*:[ \t]*ignore\[[ \t]*{re.escape(code)}[ \t]*\]")
    gone = {line for line, comment in document.comments() if wanted.match(comment)}
    if not gone:
        return document
    kept = [text for line, text in enumerate(document.text.split("\n"), 1) if line not in gone]
    edited = parse(("\ufeff" if document.bom else "") + "\n".join(kept), document.path)
    edited.encoding = document.encoding
    return edited
