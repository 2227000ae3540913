"""The server itself: what an editor asks, put into the doctor's words and back. Speaks over standard input and output."""

from __future__ import annotations

from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from mbpack import __version__
from mbpack.config.context import Given
from mbpack.config.document import Span
from mbpack.facts.pages import rule_url
from mbpack.facts.releases import DEFAULT, Release
from mbpack.facts.schema import schema
from mbpack.lsp.judging import Judged, fixed, is_of, judged
from mbpack.lsp.keys import attribute_at, attributes, completions, describe, path_at
from mbpack.rules.base import Finding

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}


class Server(LanguageServer):
    """A language server with what it judged last, by document."""

    def __init__(self, project: Given) -> None:
        super().__init__("mbpack", __version__)
        self.project = project
        self.held: dict[str, Judged] = {}
        self.good: dict[str, Judged] = {}  # the last that could be read: half a line of Python is none

    def look(self, uri: str) -> Judged:
        """Judge a document as it is now and publish its findings."""
        text = self.workspace.get_text_document(uri).source
        held = self.held[uri] = judged(text, unquote(urlparse(uri).path), self.project)
        if held.answers:
            self.good[uri] = held
        diagnostics = [diagnostic(uri, held, finding) for finding in held.findings]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics))
        return held

    def release(self, uri: str) -> Release:
        """The release that a document is for."""
        held = self.good.get(uri)
        return (held.release if held is not None else None) or DEFAULT

    def variables(self, uri: str) -> frozenset[str]:
        """What a program calls its configurations."""
        held = self.good.get(uri)
        return held.variables if held is not None else frozenset()


def create(project: Given) -> Server:
    """A server with all that it answers."""
    server = Server(project)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.look(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.look(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.held.pop(params.text_document.uri, None)
        ls.good.pop(params.text_document.uri, None)
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        held = ls.held.get(params.text_document.uri)
        if held is None:
            return None
        offset = offset_of(held.document.text, params.position)
        path = (
            attribute_at(held.document.text, offset, ls.variables(params.text_document.uri))
            if held.is_program
            else path_at(held.document, offset)
        )
        release = ls.release(params.text_document.uri)
        text = describe(schema(release.name), release, path) if path is not None else None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text is not None else None

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["=", " ", "."]))
    def complete(ls: Server, params: types.CompletionParams) -> list[types.CompletionItem]:
        uri, at = params.text_document.uri, params.position
        release = ls.release(uri)
        text, known = ls.workspace.get_text_document(uri).source, schema(release.name)
        held = ls.held.get(uri)
        if held is not None and held.is_program:
            words = attributes(known, text[: offset_of(text, at)].rpartition("\n")[2], ls.variables(uri))
        else:
            words = completions(known, release, text.split("\n"), at.line, at.character)
        return [types.CompletionItem(word) for word in words]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))
    def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        held = ls.held.get(uri)
        if held is None:
            return []
        wanted = {(found.code, found.message.partition("\n")[0]) for found in params.context.diagnostics}
        near = [finding for finding in held.findings if (finding.rule.code, finding.message) in wanted]
        return [action for finding in near for action in [action_of(uri, held, finding)] if action is not None]

    return server


def diagnostic(uri: str, held: Judged, finding: Finding) -> types.Diagnostic:
    """A finding as an editor shows it, with the places it follows from."""
    text = held.document.text
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(uri, range_of(text, setting.item.span)), f"{setting.key}: {setting.value}"
        )
        for setting in finding.related
        if setting.item is not None and is_of(setting.document, held.document)
    ]
    item = finding.setting.item
    assert item is not None  # findings with a place
    span = item.key if finding.on_key and item.key is not None else item.span
    words = (finding.message, finding.why, f"fix: {finding.fix.title}" if finding.fix is not None else "")
    return types.Diagnostic(
        range_of(text, span),
        "\n".join(word for word in words if word),
        severity=_SEVERITIES[finding.outcome.severity],
        code=finding.rule.code,
        code_description=types.CodeDescription(rule_url(finding.rule.code)),
        source="mbpack",
        related_information=related,
    )


def action_of(uri: str, held: Judged, finding: Finding) -> types.CodeAction | None:
    """The fix of a finding as a change of the whole text, where all rules accept it."""
    text = fixed(held, finding)
    if text is None or finding.fix is None:
        return None
    end = position_of(held.document.text, len(held.document.text))
    change = types.TextEdit(types.Range(types.Position(0, 0), end), text)
    safety = "" if finding.fix.safe else " (changes the training)"
    return types.CodeAction(
        f"{finding.rule.code}: {finding.fix.title}{safety}",
        kind=types.CodeActionKind.QuickFix,
        edit=types.WorkspaceEdit(changes={uri: [change]}),
        is_preferred=finding.fix.safe,
    )


def range_of(text: str, span: Span) -> types.Range:
    """A span as an editor counts it: lines from 0, characters in UTF-16."""
    return types.Range(position_of(text, span.start), position_of(text, span.end))


def position_of(text: str, offset: int) -> types.Position:
    """An offset in characters as line and UTF-16 column."""
    start = text.rfind("\n", 0, offset) + 1
    return types.Position(text.count("\n", 0, offset), len(text[start:offset].encode("utf-16-le")) // 2)


def offset_of(text: str, position: types.Position) -> int:
    """The offset in characters of a position."""
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: position.line])
    line = lines[position.line] if position.line < len(lines) else ""
    return before + len(line.encode("utf-16-le")[: 2 * position.character].decode("utf-16-le", "ignore"))
