"""What a report offers has been tried, is counted as ``--fix`` counts, and changes nothing that is trained where it is safe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.fix.mend import mend
from mbpack.fix.offers import settle
from mbpack.rules.base import Edit
from tests.conformance.rows import DATA, Row, read, text_of
from tests.fix.test_recorded import CASES

#: Rows of each release and kind; all of them with a factor of 200.
SAMPLE = 20 * int(os.environ.get("MBPACK_FUZZ_FACTOR", "1"))

AMOUNTS = ("global_batch_size", "packed_sequence_size", "train_iters", "train_samples", "num_epochs", "rampup_batch_size")
LENGTHS = ("dataset.seq_length", "dataset.sequence_length")
SOURCES = (
    "dataset_root",
    "path",
    "data_path",
    "blend",
    "hf_dataset",
    "dataset_name",
    "path_or_dataset",
    "train_data_path",
    "packed_train_data_path",
    "_target_",
)


def rows(kind: str, release: str) -> Iterator[Row]:
    found = [row for row in read(DATA / kind / f"{release}-reference.jsonl.gz") if row["expect"] == "rejected"]
    yield from found[:: max(1, len(found) // SAMPLE)]


def settled(text: str, name: str = "a.yaml") -> tuple[Request, Result]:
    request = Request([parse(text.encode(), name)], path=name)
    result = judge(request)
    settle(request, result)
    return request, result


def held(tree: Any, key: str) -> Any:
    for name in key.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def keeps(before: Any, edit: Edit) -> bool:
    """Whether an edit leaves alone how much is trained, and on what: at most the spelling of a value changes."""
    name, old = edit.key.rpartition(".")[2], held(before, edit.key)
    if edit.op == "delete":
        return False
    if name in AMOUNTS or edit.key in LENGTHS:
        same_expression = isinstance(edit.value, str) and str(old) in edit.value
        return same_expression or (as_number(old) is not None and as_number(old) == as_number(edit.value))
    return name not in SOURCES or edit.op != "set" or edit.value == old or not edit.key.startswith("dataset.")


@pytest.mark.parametrize(("kind", "release"), CASES)
def test_safe_fixes_keep_tokens_and_data(kind: str, release: str) -> None:
    for row in rows(kind, release):
        document = parse(text_of(row).encode(), row["id"])
        mended = mend(Request([document]))
        assert document.root is not None
        assert all(done.fix.safe for done in mended.done)
        twice = {problem.kind for problem in document.problems} & {"duplicate-key"}
        if twice:
            continue  # until keys stand once, there are no values to compare
        for done in mended.done:
            assert all(keeps(document.root.plain, edit) for edit in done.edits), (row["id"], done)
        before, after = (found.derived.get("token_slots_per_step") for found in (mended.before, mended.after))
        assert before is None or after is None or before.value == after.value, row["id"]


@pytest.mark.parametrize(("kind", "release"), CASES)
def test_the_report_counts_as_fix_counts(kind: str, release: str) -> None:
    """The few that differ hold fixes that stand in each other's way: which goes first decides."""
    differ = []
    for row in rows(kind, release):
        request, result = settled(text_of(row), row["id"])
        safe, unsafe = mend(request, False).gone, mend(request, True).gone
        if (result.fixable or (0, 0)) != (safe, unsafe - safe):
            differ.append(row["id"])
    assert len(differ) <= SAMPLE / 10, differ


@pytest.mark.parametrize(("kind", "release"), CASES)
def test_nothing_is_offered_that_another_rule_refuses(kind: str, release: str) -> None:
    for row in list(rows(kind, release))[::4]:
        request, result = settled(text_of(row), row["id"])
        offered = [finding for finding in result.findings if finding.fix is not None and finding.fix.edits]
        if result.fixable is None:
            continue
        assert sum(result.fixable) >= len([finding for finding in offered if finding.outcome.severity != "info"])
        after = mend(request, True).after
        errors = {(found.rule.code, found.setting.key) for found in result.findings if found.outcome.severity == "error"}
        made = {(found.rule.code, found.setting.key) for found in after.findings if found.outcome.severity == "error"} - errors
        assert not made or result.run is None or result.run.stopped, (row["id"], made)


HEAD = "# mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script\n"
LENGTHS_DIFFER = HEAD + (
    "model: {seq_length: 4096, tensor_model_parallel_size: 4, sequence_parallel: false}\n"
    "dataset:\n  seq_length: 8192\n  offline_packing_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 4}\n"
)


def titles(result: Result) -> dict[str, str]:
    return {finding.rule.code: finding.fix.title for finding in result.findings if finding.fix is not None}


def test_what_goes_away_with_another_says_so() -> None:
    _, result = settled(LENGTHS_DIFFER)
    said = titles(result)
    assert said["SEQ101"] == "dataset.seq_length: 4096"
    assert said["SEQ102"] == "goes away with the fix of SEQ101"
    codes = [finding.rule.code for finding in result.findings]
    assert codes.index("SEQ101") < codes.index("SEQ102")
    assert result.fixable == (0, 3)


def test_a_cause_stands_before_what_follows_from_it() -> None:
    text = (
        "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\nmodel: {seq_length: 8192}\n"
        "dataset:\n  seq_length: 8192\n  packed_sequence_specs: {packed_sequence_size: 8192}\n"
    )
    _, result = settled(text)
    codes = [finding.rule.code for finding in result.findings]
    assert codes.index("CFG101") < codes.index("SEQ102")
    assert titles(result)["SEQ102"] == "goes away with the fix of CFG101"


def test_a_fix_that_another_rule_refuses_is_not_offered() -> None:
    text = (
        "# mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script\n"
        "model: {context_parallel_size: 4, calculate_per_token_loss: true}\nddp: {average_in_collective: false}\n"
        "dataset:\n  dataset_kwargs: {chat: true, use_hf_tokenizer_chat_template: true}\n"
        "  packed_sequence_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 1}\n"
    )
    _, result = settled(text)
    offered = {finding.rule.code for finding in result.findings if finding.fix is not None and finding.fix.edits}
    assert not any("pad_seq_to_mult" in edit.key for f in result.findings if f.fix for edit in f.fix.edits), offered
    assert any("would lead to DAT128" in title for title in titles(result).values())


def test_no_fix_of_a_removed_key_calls_itself_safe() -> None:
    _, result = settled("# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\ntrain: {whatever: 1}\npeft:\n")
    for finding in result.findings:
        assert finding.fix is None or not finding.fix.safe
