"""What the doctor says about a text in an editor, and the text after one fix: override files and Python programs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from mbpack.config.context import ContextError, Given
from mbpack.config.document import Document, parse
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.facts.releases import Release
from mbpack.fix.mend import Mender, Refused, certain_of, start_of
from mbpack.rules.base import Finding
from mbpack.rules.internal import NOT_BRIDGE

#: What a program says somewhere when it is about Megatron-Bridge; others are not read.
_MARK = "megatron.bridge"


class Answer(Struct, frozen=True):
    """What was judged and what was found: one configuration."""

    request: Request
    result: Result


class Judged(Struct, frozen=True):
    """A text with its configurations; none for a file of another program or one that cannot be judged."""

    document: Document
    answers: tuple[Answer, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """The findings that have a place in the text, each once."""
        found: dict[tuple[str, str, int], Finding] = {}
        for answer in self.answers:
            for finding in answer.result.findings:
                if is_here(finding, self.document) and finding.setting.item is not None:
                    found.setdefault((finding.rule.code, finding.message, finding.setting.item.span.start), finding)
        return list(found.values())

    @property
    def release(self) -> Release | None:
        """The release that the text is for, None where nothing was judged."""
        contexts = (answer.result.context for answer in self.answers)
        return next((context.version.release for context in contexts if context is not None), None)

    @property
    def variables(self) -> frozenset[str]:
        """What a program calls its configurations."""
        return frozenset(answer.request.variable for answer in self.answers if self.is_program)

    @property
    def is_program(self) -> bool:
        """Whether it is Python."""
        return _is_program(self.document.path or "")


def _is_program(path: str) -> bool:
    return path.endswith(".py")


def is_here(finding: Finding, document: Document) -> bool:
    """Whether a finding is about a place in the document."""
    return finding.setting.item is not None and is_of(finding.setting.document, document)


def is_of(part: Document | None, document: Document) -> bool:
    """Whether a document is the text itself or, of a program, one of the layers read from it."""
    return part is document or (part is not None and part.language == "python" and part.path == document.path)


def judged(text: str, path: str, project: Given) -> Judged:
    """Judge a text as the file of a path."""
    if _is_program(path):
        return _judged_program(text, path, project)
    document = parse(text, path)
    answer = _answer(Request(documents=(document,), project=project, path=path))
    return Judged(document, (answer,) if answer is not None else ())


def _answer(request: Request) -> Answer | None:
    try:
        result = judge(request)
    except ContextError:
        return None
    return None if any(finding.rule is NOT_BRIDGE for finding in result.findings) else Answer(request, result)


def _judged_program(text: str, path: str, project: Given) -> Judged:
    """Every configuration that a program makes; none while it is no Python."""
    document = Document(path, text)
    if _MARK not in text:
        return Judged(document)
    from mbpack.config.python import PythonError, read_program

    try:
        made, _ = read_program(text, path, project.bridge, lambda name: _beside(path, name))
    except (PythonError, RecursionError):
        return Judged(document)
    requests = [
        Request(
            documents=one.variants[1].documents,
            variants=one.variants,
            shown=one.given,
            variable=one.variable,
            project=project,
            path=path,
        )
        for one in made
    ]
    return Judged(document, tuple(answer for answer in map(_answer, requests) if answer is not None))


def _beside(path: str, name: str) -> Sequence[Document] | None:
    """The override file that a program loads, from the working directory or its own."""
    for place in (name, os.path.join(os.path.dirname(path), name)):
        try:
            with open(place, "rb") as stream:
                return [parse(stream.read(), place)]
        except (OSError, ValueError):
            continue
    return None


def fixed(held: Judged, finding: Finding) -> str | None:
    """The text after the fix of one finding, None where it has none that all rules accept."""
    if finding.fix is None or not finding.fix.edits:
        return None
    answer = next((one for one in held.answers if any(other is finding for other in one.result.findings)), None)
    if answer is None:
        return None
    request = certain_of(answer.request)
    try:
        state, _, _ = Mender(request, answer.result, not finding.fix.safe).attempt(start_of(request), answer.result, finding)
    except Refused:
        return None
    changed = [
        document.text for document in state.documents if is_of(document, held.document) or document.path == held.document.path
    ]
    return next((text for text in changed if text != held.document.text), None)
