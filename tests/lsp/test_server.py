"""The language server, asked by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lsprotocol import types
from pygls.lsp.client import BaseLanguageClient

from mbpack.config.document import parse
from mbpack.facts import recipes
from mbpack.lsp.server import offset_of, position_of

T = TypeVar("T")
HEAD = "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\n"
BROKEN = (
    HEAD
    + "model:\n  context_parallel_size: 2\n  # ein 𝄞 davor\n  calculate_per_token_loss: false\nddp: {average_in_collective: false}\n"
)


class Client(BaseLanguageClient):
    """A client that remembers what is published."""

    def __init__(self) -> None:
        super().__init__("tests", "0")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)


def talk(
    tmp_path: Path, text: str, ask: Callable[[Client, str], Awaitable[T]], name: str = "a.yaml"
) -> tuple[list[types.Diagnostic], T]:
    """Start a server, open a document, ask; what was published on opening and the answer."""

    async def session() -> tuple[list[types.Diagnostic], T]:
        client = Client()
        await client.start_io(sys.executable, "-m", "mbpack", "lsp", cwd=str(tmp_path))
        try:
            await client.initialize_async(types.InitializeParams(types.ClientCapabilities(), root_uri=tmp_path.as_uri()))
            client.initialized(types.InitializedParams())
            uri = (tmp_path / name).as_uri()
            language = "python" if name.endswith(".py") else "yaml"
            client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, language, 1, text)))
            published = await asyncio.wait_for(client.published.get(), 60)
            answer = await asyncio.wait_for(ask(client, uri), 60)
            await client.shutdown_async(None)
            return list(published.diagnostics), answer
        finally:
            client.exit(None)  # also where something failed: the server would wait for more
            await asyncio.wait_for(client.stop(), 60)

    return asyncio.run(session())


async def nothing(client: Client, uri: str) -> None:
    return None


def test_findings_are_published_at_their_place(tmp_path: Path) -> None:
    found, _ = talk(tmp_path, BROKEN, nothing)
    (loss,) = (one for one in found if one.code == "CPL101")
    assert loss.severity is types.DiagnosticSeverity.Error
    assert loss.source == "mbpack"
    assert loss.code_description is not None
    assert loss.code_description.href.endswith("/rules/CPL101.html")
    assert loss.range == types.Range(types.Position(4, 28), types.Position(4, 33))
    assert [place.location.range.start.line for place in loss.related_information or ()] == [2]
    assert "fix: calculate_per_token_loss: true" in loss.message


def test_a_foreign_file_has_none(tmp_path: Path) -> None:
    found, _ = talk(tmp_path, "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", nothing)
    assert found == []


def test_a_quick_fix_mends_the_text(tmp_path: Path) -> None:
    async def ask(client: Client, uri: str) -> Any:
        client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(2, uri), [types.TextDocumentContentChangeWholeDocument(BROKEN)]
            )
        )
        again = await client.published.get()
        whole = types.Range(types.Position(0, 0), types.Position(9, 0))
        chosen = [one for one in again.diagnostics if one.code == "CPL101"]
        return await client.text_document_code_action_async(
            types.CodeActionParams(types.TextDocumentIdentifier(uri), whole, types.CodeActionContext(chosen))
        )

    _, actions = talk(tmp_path, BROKEN, ask)
    (action,) = actions
    ((edit,),) = action.edit.changes.values()
    assert edit.new_text == BROKEN.replace("loss: false", "loss: true")
    assert edit.range.start == types.Position(0, 0)


def at(text: str, word: str) -> types.Position:
    return position_of(text, text.index(word) + 1)


def test_hover_says_what_a_key_is(tmp_path: Path) -> None:
    async def ask(client: Client, uri: str) -> Any:
        return await client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), at(BROKEN, "calculate_per"))
        )

    _, answer = talk(tmp_path, BROKEN, ask)
    assert answer.contents.value.startswith("**model.calculate_per_token_loss** (Megatron-Bridge 0.6)")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("train:\n  glob", "global_batch_size"),
        ("tra", "train"),
        ("model:\n  recompute_granularity: ", "selective"),
        ("dataset:\n  seq_", "seq_length"),
        ("# mbpack: bridge=0.6 recipe=qw", "qwen3_8b_sft_4gpu_h100_bf16_config"),
        ("# mbpack: bridge=", "0.6"),
    ],
)
def test_completion_offers_what_may_stand_there(tmp_path: Path, text: str, wanted: str) -> None:
    async def ask(client: Client, uri: str) -> Any:
        return await client.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier(uri), position_of(text, len(text)))
        )

    _, items = talk(tmp_path, text, ask)
    labels = [item.label for item in items]
    assert wanted in labels
    assert "recipe=" not in text or labels == recipes.names("0.6")


@pytest.mark.parametrize("offset", range(0, len(BROKEN), 7))
def test_positions_and_offsets_are_each_others_inverse(offset: int) -> None:
    assert offset_of(BROKEN, position_of(BROKEN, offset)) == offset


def test_spans_of_documents_are_offsets_in_the_text() -> None:
    root = parse(BROKEN).root
    assert root is not None
    item = root.value["model"].value["calculate_per_token_loss"]
    assert BROKEN[item.span.start : item.span.end] == "false"


# ---------------------------------------------------------------------- programs

PROGRAM = """from megatron.bridge.recipes.llama import llama3_8b_sft_config
from megatron.bridge.training.finetune import finetune

cfg = llama3_8b_sft_config()
cfg.model.context_parallel_size = 2
cfg.model.calculate_per_token_loss = False  # 𝄞
finetune(cfg)
"""


def change(uri: str, text: str) -> types.DidChangeTextDocumentParams:
    return types.DidChangeTextDocumentParams(
        types.VersionedTextDocumentIdentifier(2, uri), [types.TextDocumentContentChangeWholeDocument(text)]
    )


def test_a_program_is_judged_and_mended_where_it_sets_a_value(tmp_path: Path) -> None:
    async def ask(client: Client, uri: str) -> Any:
        client.text_document_did_change(change(uri, PROGRAM))
        again = await client.published.get()
        whole = types.Range(types.Position(0, 0), types.Position(9, 0))
        chosen = [one for one in again.diagnostics if one.code == "CPL101"]
        return await client.text_document_code_action_async(
            types.CodeActionParams(types.TextDocumentIdentifier(uri), whole, types.CodeActionContext(chosen))
        )

    found, (action,) = talk(tmp_path, PROGRAM, ask, "train.py")
    (loss,) = (one for one in found if one.code == "CPL101")
    assert loss.range == types.Range(types.Position(5, 37), types.Position(5, 42))
    assert [place.location.range.start.line for place in loss.related_information or ()] == [4]
    ((edit,),) = action.edit.changes.values()
    assert edit.new_text == PROGRAM.replace("loss = False", "loss = True")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("cfg.train.glob", "global_batch_size"), ("cfg.", "train"), ("x = cfg.dataset.", "seq_length"), ("os.", None)],
)
def test_attributes_of_a_configuration_are_completed(tmp_path: Path, line: str, wanted: str | None) -> None:
    text = PROGRAM + line  # half a line is no Python: what was read before counts

    async def ask(client: Client, uri: str) -> Any:
        client.text_document_did_change(change(uri, text))
        await client.published.get()
        return await client.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier(uri), position_of(text, len(text)))
        )

    _, items = talk(tmp_path, PROGRAM, ask, "train.py")
    labels = [item.label for item in items or ()]
    assert labels == [] if wanted is None else wanted in labels


def test_hover_says_what_an_attribute_is(tmp_path: Path) -> None:
    async def ask(client: Client, uri: str) -> Any:
        at_key = types.HoverParams(types.TextDocumentIdentifier(uri), at(PROGRAM, "calculate_per"))
        other = types.HoverParams(types.TextDocumentIdentifier(uri), at(PROGRAM, "finetune(cfg)"))
        return await client.text_document_hover_async(at_key), await client.text_document_hover_async(other)

    _, (answer, nothing_there) = talk(tmp_path, PROGRAM, ask, "train.py")
    assert answer.contents.value.startswith("**model.calculate_per_token_loss** (Megatron-Bridge")
    assert nothing_there is None


@pytest.mark.parametrize("text", ["print('hello')\n", "import megatron.bridge\ndef broken(:\n"])
def test_other_programs_and_broken_ones_have_no_findings(tmp_path: Path, text: str) -> None:
    found, _ = talk(tmp_path, text, nothing, "other.py")
    assert found == []
