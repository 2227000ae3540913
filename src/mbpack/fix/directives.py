"""The release that a file's own ``# mbpack:`` comment names."""

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
