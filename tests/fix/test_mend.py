"""Configurations mended: findings gone, nothing new, nothing else touched, a second run idle."""

from __future__ import annotations

import pytest

from mbpack.config.document import parse
from mbpack.config.overrides import parse_overrides
from mbpack.engine.check import Selection
from mbpack.engine.doctor import Request
from mbpack.fix.mend import Mended, fixable, mend

HEAD = "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
PACKED = HEAD + (
    "model:\n  tensor_model_parallel_size: 4  # one node\n  sequence_parallel: true\n  context_parallel_size: 2\n"
    "train: {micro_batch_size: 2, global_batch_size: 8}\n"
    "dataset:\n  # specs\n  offline_packing_specs:\n    num_tokenizer_workers: 8\n    pad_seq_to_mult: 2\n"
)


def fix(text: str, unsafe: bool = True, **more: object) -> Mended:
    return mend(Request([parse(text)], **more), unsafe)  # type: ignore[arg-type]


def text_of(mended: Mended) -> str:
    return mended.state.documents[0].text


def slugs(mended: Mended) -> set[str]:
    return {done.finding.rule.slug for done in mended.done}


def test_everything_at_once() -> None:
    mended = fix(PACKED)
    assert mended.after.errors == 0
    assert not list(fixable(mended.after, True))
    assert text_of(mended) == HEAD + (
        "model:\n  tensor_model_parallel_size: 4  # one node\n  sequence_parallel: true\n  context_parallel_size: 2\n"
        "  calculate_per_token_loss: true\n"
        "train: {micro_batch_size: 1, global_batch_size: 8}\n"
        "dataset:\n  # specs\n  offline_packing_specs:\n    num_tokenizer_workers: 8\n    pad_seq_to_mult: 8\n"
    )
    again = fix(text_of(mended))
    assert not again.changed
    assert not again.done


def test_safe_fixes_leave_the_unsafe_ones() -> None:
    mended = fix(PACKED, unsafe=False)
    assert all(done.fix.safe for done in mended.done)
    assert "pad_seq_to_mult: 2" in text_of(mended)
    assert "align/pad-seq-to-mult-cp" in {finding.rule.slug for finding in fixable(mended.after, True)}


def test_only_selected_rules() -> None:
    mended = fix(PACKED, selection=Selection(select=("batch",)))
    assert slugs(mended) == {"batch/offline-mbs-one"}
    assert "pad_seq_to_mult: 2" in text_of(mended)


def test_an_error_that_a_fix_brings_is_mended_with_it() -> None:
    """The old name is ignored in 0.6; with the new one the specs are in force, and so are their rules."""
    mended = fix(PACKED.replace("offline_packing_specs", "packed_sequence_specs"))
    assert "cfg/renamed-key" in slugs(mended)
    assert mended.after.errors == 0
    assert "offline_packing_specs:\n    num_tokenizer_workers: 8\n    pad_seq_to_mult: 8\n" in text_of(mended)


def test_a_fix_that_would_bring_an_error_is_taken_back() -> None:
    """0.5 cannot pad chat data to a multiple: the multiple that context parallelism needs would stop the packing."""
    text = (
        "# mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
        "model:\n  context_parallel_size: 2\n  calculate_per_token_loss: true\nddp: {average_in_collective: false}\n"
        "dataset:\n  dataset_kwargs: {chat: true, use_hf_tokenizer_chat_template: true}\n"
        "  packed_sequence_specs: {pad_seq_to_mult: 1}\n"
    )
    mended = fix(text)
    before = {finding.rule.slug for finding in mended.before.findings if finding.outcome.severity == "error"}
    after = {finding.rule.slug for finding in mended.after.findings if finding.outcome.severity == "error"}
    assert "align/pad-seq-to-mult-cp" in before
    assert after <= before
    reasons = {entry.finding.rule.slug: entry.reason for entry in mended.manual}
    assert "it would lead to" in reasons["align/pad-seq-to-mult-cp"]


def test_a_multiple_that_nothing_needs_is_the_smallest() -> None:
    head = "# mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
    whole = fix(
        head + "model: {tensor_model_parallel_size: 4, sequence_parallel: true}\n"
        "dataset:\n  packed_sequence_specs: {pad_seq_to_mult: null}\n"
    )
    assert "pad_seq_to_mult: 1}" in text_of(whole)
    assert not mend(Request(list(whole.state.documents)), True).changed


def test_a_shared_value_is_left_to_the_user() -> None:
    text = HEAD + "x: &n 2\ntrain: {micro_batch_size: *n, global_batch_size: 16}\nmodel: {num_moe_experts: *n}\n"
    mended = fix(text)
    assert "x: &n 2" in text_of(mended)
    assert "micro_batch_size: 1" in text_of(mended)
    assert "num_moe_experts: *n" in text_of(mended)


def test_a_value_that_others_read_is_left_to_the_user() -> None:
    text = HEAD + "train: {micro_batch_size: 2, global_batch_size: 16}\nlogger: {log_interval: '${train.micro_batch_size}'}\n"
    mended = fix(text)
    assert "micro_batch_size: 2" in text_of(mended)
    assert any("takes its value from here" in entry.reason for entry in mended.manual)


def test_arguments_change_where_they_decide() -> None:
    overrides = parse_overrides(["train.micro_batch_size=2", "train.global_batch_size=16"])
    mended = mend(Request([parse(HEAD + "train: {micro_batch_size: 4}\n")], overrides=overrides), True)
    assert "train.micro_batch_size=1" in mended.state.overrides
    assert "micro_batch_size: 4" in text_of(mended)


def test_layers_change_where_they_decide() -> None:
    low, high = parse(PACKED), parse("train:\n  micro_batch_size: 2\n")
    mended = mend(Request([low, high]), True)
    assert mended.after.errors == 0
    assert "micro_batch_size: 1" in mended.state.documents[1].text
    assert "micro_batch_size: 2" in mended.state.documents[0].text


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "a: [", "- 1\n", "\x00", "a: 1\na: 2\n", "policy: {sequence_packing: {enabled: true}}\n"]
)
def test_any_text(text: str) -> None:
    mended = fix(text)
    assert not mended.changed or mended.state.documents[0].root is not None


def test_the_switch_of_0_6_does_not_become_specs() -> None:
    text = "# mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=16 launcher=script\ndataset: {enable_offline_packing: true, seq_length: 4096}\n"
    mended = fix(text)
    assert "packed_sequence_specs" not in text_of(mended)
    assert "enable_offline_packing" not in text_of(mended)


def test_a_list_in_the_place_of_a_mapping() -> None:
    mended = fix(HEAD + "train:\n  - micro_batch_size: 1\n  - global_batch_size: 16 # rows\n")
    assert text_of(mended) == HEAD + "train: # rows\n  micro_batch_size: 1\n  global_batch_size: 16\n"


def test_a_variable_is_decoded_where_a_number_is_needed() -> None:
    mended = fix(HEAD + "train: {global_batch_size: '${oc.env:GBS,16}'}\n")
    assert "'${oc.decode:${oc.env:GBS,16}}'" in text_of(mended)


def test_a_new_key_of_a_free_mapping_gets_its_plus_sign() -> None:
    arguments = ["dataset.dataset_kwargs.get_attention_mask_from_fusion=true", "train.train_iters=100"]
    mended = mend(Request([parse(HEAD)], overrides=parse_overrides(arguments)))
    assert mended.before.verdict == "rejected"
    assert mended.state.overrides == (f"+{arguments[0]}", arguments[1])
    assert mended.after.verdict == "accepted"
    assert not mend(Request([parse(HEAD)], overrides=parse_overrides(mended.state.overrides))).changed


def test_a_comment_about_the_run_is_not_removed_with_the_key_around_it() -> None:
    mended = fix("model:\n  noth_in_any_release:\n# mbpack: bridge=0.3\n    of this\ntrain:\n  micro_batch_size: 1\n")
    assert not mended.changed
    assert ["`# mbpack:` comment" in manual.reason for manual in mended.manual] == [True]
