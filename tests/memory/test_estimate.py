"""Properties of an estimate, and the order in which pipeline stages work."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from mbpack.facts.gpus import GPUS
from mbpack.facts.shapes import Shape, all_shapes, shape_of
from mbpack.memory.estimate import GIB, stages, worst
from mbpack.memory.layers import chunks
from mbpack.memory.ledger import kept
from mbpack.memory.parameters import stage_count
from mbpack.memory.schedule import events, warm_up
from mbpack.memory.setup import Entropy, Lora, Recompute, Setup
from mbpack.memory.states import states
from mbpack.memory.terms import TERMS
from mbpack.memory.verdict import Verdict, judge

SHAPES = [shape for shape in all_shapes() if shape.num_layers >= 16]
RECOMPUTES = [
    {},
    {"recompute": Recompute.UNIFORM},
    {"recompute": Recompute.BLOCK, "recompute_layers": 4},
    {"recompute": Recompute.SELECTIVE, "modules": frozenset({"mlp", "moe"})},
    {"recompute": Recompute.SELECTIVE, "modules": frozenset({"moe_act", "layernorm", "mla_up_proj"})},
]


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    shape = draw(st.sampled_from(SHAPES))
    tp, pp, cp, ep = (draw(st.sampled_from([1, 2, 4])) for _ in range(4))
    return Setup(
        shape,
        gpus=64,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep if shape.num_moe_experts else 1,
        sp=draw(st.booleans()) and tp > 1,
        length=draw(st.sampled_from([1024, 4096, 32768])),
        mbs=draw(st.sampled_from([1, 2])),
        microbatches=draw(st.sampled_from([1, 4, 16])),
        entropy=draw(st.sampled_from(list(Entropy))),
        activation_fused=draw(st.booleans()),
        lora=draw(st.sampled_from([None, Lora()])),
        **draw(st.sampled_from(RECOMPUTES)),
    )


@given(setups())
@settings(max_examples=60, deadline=None)
def test_rows_add_up_to_the_peak_and_all_have_a_term(setup: Setup) -> None:
    for stage in stages(setup):
        assert stage.peak == sum(stage.rows.values())
        assert set(stage.rows) <= set(TERMS)
        assert min(stage.rows.values()) >= 0
        assert 0 <= stage.first_step <= stage.peak


@given(setups())
@settings(max_examples=60, deadline=None)
def test_a_longer_row_and_a_larger_micro_batch_need_no_less(setup: Setup) -> None:
    least = worst(setup).peak
    assert worst(structs.replace(setup, length=2 * setup.length)).peak >= least
    assert worst(structs.replace(setup, mbs=2 * setup.mbs)).peak >= least


@given(setups())
@settings(max_examples=60, deadline=None)
def test_more_layers_need_no_less(setup: Setup) -> None:
    shape = setup.shape
    assume(not shape.hybrid_layer_pattern)
    fewer = structs.replace(shape, num_layers=shape.num_layers // 2 // setup.pp * setup.pp or setup.pp)
    assert worst(structs.replace(setup, shape=fewer)).peak <= worst(setup).peak


@given(setups())
@settings(max_examples=60, deadline=None)
def test_states_never_rise_when_a_model_is_divided_more(setup: Setup) -> None:
    def held(one: Setup) -> float:
        return max(states(one, stage_count(one, index)).total for index in range(one.pp))

    for name in ("tp", "pp", "cp", *(("ep",) if setup.shape.num_moe_experts else ())):
        more = structs.replace(setup, gpus=2 * setup.gpus, **{name: 2 * getattr(setup, name)})
        if name != "pp" or len(setup.shape.hybrid_layer_pattern or "x" * setup.shape.num_layers) % more.pp == 0:
            assert held(more) <= held(setup) * (1 + 1e-12), name


@given(setups())
@settings(max_examples=60, deadline=None)
def test_context_parallelism_never_needs_more(setup: Setup) -> None:
    assert worst(structs.replace(setup, cp=2 * setup.cp)).peak <= worst(setup).peak * (1 + 1e-9)


@given(setups())
@settings(max_examples=60, deadline=None)
def test_full_recompute_keeps_no_more_than_none(setup: Setup) -> None:
    assume(setup.microbatches > 1 and setup.pp > 1)
    none = structs.replace(setup, recompute=Recompute.NONE, modules=frozenset())
    full = structs.replace(none, recompute=Recompute.UNIFORM)
    assert worst(full).peak <= worst(none).peak * 1.02


@given(setups(), st.sampled_from(sorted(GPUS)))
@settings(max_examples=60, deadline=None)
def test_a_range_is_in_order_and_its_verdict_follows(setup: Setup, name: str) -> None:
    found = judge(setup, GPUS[name])
    assert found.low <= found.allocated <= found.likely <= found.high
    room = GPUS[name].usable * GIB
    assert (found.verdict is Verdict.FITS) == (found.high <= room)
    assert (found.verdict is Verdict.NOT) == (found.low > room)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 24))
def test_every_chunk_runs_as_often_forward_as_backward(pp: int, vpp: int, microbatches: int) -> None:
    microbatches = microbatches if vpp == 1 else -(-microbatches // pp) * pp
    for stage in range(pp):
        found = events(stage, pp, vpp, microbatches)
        for chunk in range(vpp):
            forward = [event for event in found if event.forward and event.chunk == chunk]
            backward = [event for event in found if not event.forward and event.chunk == chunk]
            assert len(forward) == len(backward) > 0
        assert max(sum(event.alive) for event in found) == min(warm_up(stage, pp, vpp, microbatches) + 1, microbatches * vpp)


def test_the_first_stage_of_one_forward_one_backward_keeps_a_microbatch_a_stage() -> None:
    assert [max(sum(event.alive) for event in events(stage, 4, 1, 32)) for stage in range(4)] == [4, 3, 2, 1]


def test_an_interleaved_stage_keeps_what_the_recorded_7b_model_kept() -> None:
    """GPT 7B, TP 1, PP 4, 8 virtual stages, 4 microbatches: 56.3 to 56.6 GiB on the last rank of three kinds of GPU."""
    assert [max(sum(event.alive) for event in events(stage, 4, 8, 4)) for stage in range(4)] == [32, 32, 31, 29]


def _shape(name: str) -> Shape:
    found = shape_of(name)
    assert found is not None
    return found


def test_the_loss_of_a_long_row_by_its_implementation() -> None:
    """32,768 tokens, 151,936 logits each: 46.4, 27.8 and 9.3 GiB at 10, 6 and 2 bytes; the development tree's te needs 6."""
    base = Setup(_shape("Qwen/Qwen3-8B"), length=32768)
    for entropy, te, wanted in (
        (Entropy.FUSED, (2, 17), 46.4),
        (Entropy.UNFUSED, (2, 17), 27.8),
        (Entropy.TE, (2, 17), 9.3),
        (Entropy.TE, (2, 18), 27.8),
    ):
        rows = worst(structs.replace(base, entropy=entropy, te=te)).rows
        assert (rows["logits"] + rows.get("loss peak", 0)) / GIB == pytest.approx(wanted, abs=0.05)


def test_states_of_published_recipes() -> None:
    """Weights, gradients and optimizer of Llama 3 8B on 2 GPUs with context parallelism: 89.7 GiB."""
    setup = Setup(_shape("meta-llama/Meta-Llama-3-8B"), gpus=2, cp=2)
    assert states(setup, stage_count(setup, 0)).total / GIB == pytest.approx(89.7, abs=0.1)
    nano = Setup(_shape("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"), gpus=8, ep=8)
    assert states(nano, stage_count(nano, 0)).total / GIB == pytest.approx(76.9, abs=0.1)


def test_a_gated_delta_net_keeps_what_a_recorded_run_took_more() -> None:
    """Qwen3.5 27B at TP 4, two rows: 37.66 GB more after the forward pass at 4 K, 112.51 GB at 12 K."""
    base = Setup(_shape("Qwen/Qwen3.5-27B"), gpus=4, tp=4, sp=True, length=4096, mbs=2, activation_fused=True, rope_fused=False)
    long = structs.replace(base, length=12288)
    more = [kept(setup, chunks(setup)[0][0]).total for setup in (base, long)]
    assert (more[1] - more[0]) / (112.507e9 - 37.664e9) == pytest.approx(1, abs=0.01)


def test_an_encoder_raises_the_high_end_alone() -> None:
    plain = judge(Setup(_shape("Qwen/Qwen3-8B"), gpus=8, tp=2), GPUS["h100-80gb"])
    vision = judge(Setup(_shape("Qwen/Qwen3-VL-8B-Instruct"), gpus=8, tp=2), GPUS["h100-80gb"])
    assert (vision.low, vision.likely) == (plain.low, plain.likely)
    assert vision.high - plain.high == pytest.approx(576e6 * (2 + 4 + 12 / 4))


def test_adam_makes_its_moments_at_the_first_step() -> None:
    found = judge(Setup(_shape("Qwen/Qwen3-8B"), gpus=4, tp=4), GPUS["h100-80gb"])
    assert found.allocated - found.first_step == pytest.approx(8 * 8190735360 / 4, rel=0.01)
