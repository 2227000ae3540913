"""After a change of single keys, asking only the rules that read them says what asking all of them says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mbpack.config.document import parse
from mbpack.config.edit import CannotEdit, set_key
from mbpack.config.projected import changed_paths, projected
from mbpack.engine.again import findings_after
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from tests.conformance.rows import KINDS, corpora, read, text_of

#: Changes that are tried on every file: many rules read these keys.
CHANGES: tuple[tuple[str, Any], ...] = (
    ("model.tensor_model_parallel_size", 2),
    ("model.context_parallel_size", 1),
    ("model.sequence_parallel", False),
    ("train.micro_batch_size", 1),
    ("train.global_batch_size", 24),
    ("model.seq_length", 2048),
    ("dataset.seq_length", 4098),
    ("model.cuda_graph_impl", "none"),
    ("ddp.average_in_collective", False),
    ("dataset.dataloader_type", "single"),
)


def texts() -> Iterator[str]:
    for kind in KINDS:
        for path in corpora(kind):
            rows = read(path)
            yield from (text_of(row) for row in rows[:: max(1, len(rows) // 4)])


TEXTS = list(texts())


def marks(result: Result) -> set[tuple[str, str, str, str]]:
    return {(f.rule.code, f.setting.key, f.message, f.outcome.severity) for f in result.findings}


@pytest.mark.parametrize(("key", "value"), CHANGES)
def test_those_that_read_a_key_say_what_all_say(key: str, value: Any) -> None:
    told = 0
    for text in TEXTS:
        request = Request((parse(text),))
        base = judge(request)
        if base.run is None:
            continue
        try:
            document = set_key(request.documents[0], key.split("."), value).document
        except CannotEdit:
            continue
        found = findings_after(base, request, (document,))
        if found is None:
            continue
        told += 1
        whole = judge(Request((document,)))
        some = {(f.rule.code, f.setting.key, f.message, f.outcome.severity) for f in found}
        assert some == marks(whole), text
    assert told > 10


def test_a_projected_document_is_the_one_that_is_read() -> None:
    text = (
        "model:\n  tensor_model_parallel_size: 4  # four\n  cp_comm_type: 'p2p'\ntrain: {micro_batch_size: 2, train_iters: 5}\n"
    )
    pairs = [
        (("model", "tensor_model_parallel_size"), 16),
        (("train", "micro_batch_size"), None),
        (("model", "cp_comm_type"), "a2a"),
    ]
    document = projected(parse(text), pairs)
    assert document is not None
    assert document.root is not None
    read_anew = parse(document.text)
    assert read_anew.root is not None
    assert read_anew.root.plain == document.root.plain
    assert changed_paths(read_anew.root, document.root) == []
    before = parse(text).root
    assert before is not None
    assert set(changed_paths(before, document.root)) == {path for path, _ in pairs}


@pytest.mark.parametrize(
    "text",
    [
        "model: {tensor_model_parallel_size: &n 4}\n",
        "model: {tensor_model_parallel_size: !!int 4}\n",
        "model: {tensor_model_parallel_size: [4]}\n",
        "model: {tensor_model_parallel_size: 4}\nmodel: {tensor_model_parallel_size: 4}\n",
        "model: {seq_length: 4}\n",
        "model: {tensor_model_parallel_size: '${model.seq_length}', seq_length: 4}\n",
    ],
)
def test_where_only_reading_tells_nothing_is_projected(text: str) -> None:
    assert projected(parse(text), [(("model", "tensor_model_parallel_size"), 2)]) is None
