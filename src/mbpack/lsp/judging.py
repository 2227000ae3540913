"""What the doctor says about a text in an editor, and the text after one fix."""

from __future__ import annotations

from msgspec import Struct

from mbpack.config.context import ContextError, Given
from mbpack.config.document import Document, parse
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.fix.mend import Mender, Refused, certain_of, start_of
from mbpack.rules.base import Finding
from mbpack.rules.internal import NOT_BRIDGE


class Judged(Struct, frozen=True):
    """A text with its findings; none for a file of another program or one that cannot be judged."""

    document: Document
    request: Request
    result: Result | None

    @property
    def findings(self) -> list[Finding]:
        """The findings that have a place in the text."""
        return [] if self.result is None else [finding for finding in self.result.findings if is_here(finding, self.document)]


def is_here(finding: Finding, document: Document) -> bool:
    """Whether a finding is about a place in the document."""
    return finding.setting.item is not None and finding.setting.document is document


def judged(text: str, path: str, project: Given) -> Judged:
    """Judge a text as the file of a path."""
    document = parse(text, path)
    request = Request(documents=(document,), project=project, path=path)
    try:
        result = judge(request)
    except ContextError:
        return Judged(document, request, None)
    return Judged(document, request, None if any(finding.rule is NOT_BRIDGE for finding in result.findings) else result)


def fixed(held: Judged, finding: Finding) -> str | None:
    """The text after the fix of one finding, None where it has none that all rules accept."""
    if held.result is None or finding.fix is None or not finding.fix.edits:
        return None
    request = certain_of(held.request)
    try:
        state, _, _ = Mender(request, held.result, not finding.fix.safe).attempt(start_of(request), held.result, finding)
    except Refused:
        return None
    return state.documents[0].text
