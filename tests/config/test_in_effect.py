"""Packing values after what the launcher repairs, and the precision that is in effect."""

from __future__ import annotations

from typing import Any

import pytest

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.in_effect import (
    in_batch_fixed,
    likely_multiple,
    multiple_named,
    needed_multiple,
    pack_size,
    packs_in_batch,
    pad_multiple,
    sample_limit,
)
from mbpack.config.precision import fp8_in_effect
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind

LLAMA, QWEN_VL = "llama3_8b_sft_config", "qwen25_vl_7b_sft_config"


def run_of(text: str, bridge: str = "0.6", **context: Any) -> Run:
    document = parse(text)
    return build_run(resolve_context(Given(bridge=bridge, **context), Given(), [document]), [document])


def test_the_launcher_copies_the_length_and_raises_the_multiple() -> None:
    text = """
    model: {context_parallel_size: 2, tensor_model_parallel_size: 4, sequence_parallel: true}
    dataset: {seq_length: 8192, offline_packing_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 6}}
    """
    script, launched = run_of(text, recipe=LLAMA, launcher="script"), run_of(text, recipe=LLAMA, launcher="run_recipe")
    assert (pack_size(script), pad_multiple(script)) == (4096, 6)
    assert (pack_size(launched), pad_multiple(launched)) == (8192, 24)


def test_single_samples_may_have_a_limit_of_their_own() -> None:
    text = "dataset: {offline_packing_specs: {max_single_sequence_length: 1000}}"
    assert sample_limit(run_of(text, recipe=LLAMA)) == 1000
    assert sample_limit(run_of("{}", recipe=LLAMA)) == 4096


def test_a_topology_nobody_gave_is_unknown_for_verdicts_and_one_for_words() -> None:
    run = run_of("model: {context_parallel_size: 4}")
    assert likely_multiple(run).value == 8
    with pytest.raises(Unknown):
        needed_multiple(run)


@pytest.mark.parametrize("size", ["2.5", ".inf", "0", "-2"])
def test_a_topology_that_is_no_size_is_unknown(size: str) -> None:
    with pytest.raises((Unknown, WrongKind)):
        needed_multiple(run_of(f"model: {{context_parallel_size: {size}}}", recipe=LLAMA))


def test_in_batch_packing_happens_on_classes_that_know_it() -> None:
    switch = "dataset: {enable_in_batch_packing: true}"
    assert packs_in_batch(run_of(switch, recipe=QWEN_VL))
    assert not packs_in_batch(run_of(switch, recipe=LLAMA))


def test_in_batch_rows_have_one_width_from_07_on() -> None:
    switch = "dataset: {enable_in_batch_packing: true, pad_to_max_length: true}"
    assert not in_batch_fixed(run_of(switch, recipe=QWEN_VL))
    assert in_batch_fixed(run_of(switch, bridge="0.7", recipe=QWEN_VL))


def test_multiples_in_directory_names() -> None:
    assert multiple_named("packs/tok_pad_seq_to_mult16_sft_ab/training_4096.idx.parquet") == 16
    assert multiple_named("packs/training_4096.idx.parquet") is None


def test_precision_by_name_wins_over_the_model() -> None:
    fp8 = fp8_in_effect(run_of("{mixed_precision: bf16_with_mxfp8_mixed, model: {fp8: null}}", recipe=LLAMA))
    assert fp8 is not None
    assert (fp8.recipe, fp8.block, fp8.attention) == ("mxfp8", 32, False)
    assert fp8_in_effect(run_of("{mixed_precision: bf16_mixed, model: {fp8: hybrid}}", recipe=LLAMA)) is None


def test_without_mixed_precision_the_model_decides() -> None:
    fp8 = fp8_in_effect(run_of("{mixed_precision: null, model: {fp8: hybrid, fp8_recipe: delayed}}", recipe=LLAMA))
    assert fp8 is not None
    assert fp8.key == "model.fp8"
