"""Parameters: the shapes' checksums, and ranks that add up to the whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from mbpack.facts.gpus import GPUS, find_gpu, gpu_in_recipe
from mbpack.facts.shapes import Shape, all_shapes, shape_of
from mbpack.memory.layers import chunks
from mbpack.memory.parameters import stage_count, total
from mbpack.memory.setup import Setup

SHAPES = all_shapes()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_parameters_equal_the_published_total(shape: Shape) -> None:
    assert total(shape) == shape.computed
    if shape.published:
        assert shape.published == shape.computed + shape.beyond
        assert bool(shape.beyond) == bool(shape.beyond_why)


def test_a_shape_is_found_by_its_public_name_and_by_its_class() -> None:
    found = shape_of("qwen/qwen3-8b")
    assert found is not None
    assert (found.name, found.encoder) == ("Qwen3-8B", None)
    vision = shape_of("Qwen/Qwen3-VL-8B-Instruct")
    assert vision is not None
    assert vision.encoder == 576_000_000
    assert vision.num_layers == found.num_layers
    assert shape_of(None, "OlMoEModelProvider") == shape_of("allenai/OLMoE-1B-7B-0125")
    assert shape_of("somebody/else") is None
    assert shape_of(None) is None


def test_no_public_name_belongs_to_two_shapes() -> None:
    names = [name for shape in SHAPES for name in shape.hf_ids]
    assert len(names) == len(set(names))


def test_gpus_have_names_people_use() -> None:
    assert find_gpu("H100") is GPUS["h100-80gb"]
    assert find_gpu("NVIDIA H200") is GPUS["h200"]
    assert find_gpu("tpu") is None
    assert gpu_in_recipe("qwen3_30b_a3b_pretrain_8gpu_gb200_fp8mx_config") is GPUS["gb200"]
    assert gpu_in_recipe("llama3_70b_pretrain_config") is None


@given(
    shape=st.sampled_from(SHAPES),
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 3, 4, 8]),
    vpp=st.sampled_from([1, 1, 2]),
    ep=st.sampled_from([1, 2, 4, 8]),
    etp=st.sampled_from([1, 2]),
)
@settings(max_examples=200, deadline=None)
def test_ranks_add_up_to_the_model(shape: Shape, tp: int, pp: int, vpp: int, ep: int, etp: int) -> None:
    etp = 1 if shape.add_bias_linear else etp  # the second bias of experts is a copy on every rank of their tensor group
    setup = Setup(shape, gpus=tp * pp * ep * etp, tp=tp, pp=pp, vpp=vpp, ep=ep, etp=etp, release=(0, 4))
    ranks = [stage_count(setup, stage) for stage in range(pp)]
    held = sum(count.split * tp + count.copied + count.expert * ep * etp for count in ranks)
    first, last = chunks(setup)[0][0], chunks(setup)[-1][-1]
    again = shape.vocab_size * shape.hidden_size  # tables that a second stage holds too: of tied weights, of the MTP depths
    tied = shape.share_embeddings_and_output_weights and not first.loss
    depths = bool(last.mtp) and not last.embedding and not shape.share_embeddings_and_output_weights
    assert held == pytest.approx(total(shape) + again * (tied + depths), rel=1e-12)


@given(shape=st.sampled_from(SHAPES), tp=st.sampled_from([2, 4]), pp=st.sampled_from([2, 4]))
@settings(max_examples=50, deadline=None)
def test_no_rank_holds_more_of_a_model_that_is_divided_more(shape: Shape, tp: int, pp: int) -> None:
    one = Setup(shape, gpus=tp * pp)
    divided = structs.replace(one, tp=tp, pp=pp)
    assert max(stage_count(divided, stage).all for stage in range(pp)) <= stage_count(one, 0).all
