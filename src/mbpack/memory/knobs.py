"""What each setting buys: the same run with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from mbpack.memory.estimate import worst
from mbpack.memory.feed_forward import FUSIBLE_GATED, fused_activation
from mbpack.memory.layers import layer_kinds
from mbpack.memory.setup import Entropy, Recompute, Setup


class Knob(Struct, frozen=True):
    """One change. `saves`: bytes less at the peak of the worst stage, below zero where it adds. `settings`: what to write.

    `setup`: the run with it.
    """

    name: str
    saves: float
    settings: dict[str, Any]
    setup: Setup


def knobs(setup: Setup, generation: str = "sm90") -> list[Knob]:
    """Every change that the run does not have yet, the largest saving first."""
    now = worst(setup, 1.0, generation).peak
    found = []
    for name, settings, changed in _changes(setup):
        found.append(Knob(name, now - worst(changed, 1.0, generation).peak, settings, changed))
    return sorted(found, key=lambda knob: -knob.saves)


_Change = tuple[str, dict[str, Any], Setup]


def _changes(setup: Setup) -> Iterator[_Change]:
    yield from _recompute(setup)
    yield from _kernels(setup)
    yield from _sizes(setup)
    yield from _states(setup)


def _recompute(setup: Setup) -> Iterator[_Change]:
    kinds = set("".join(layer_kinds(setup.shape)))
    whole = setup.recompute in (Recompute.UNIFORM, Recompute.BLOCK)
    if not whole and not setup.shape.hybrid_layer_pattern:
        yield (
            "full recompute",
            {"model.recompute_granularity": "full", "model.recompute_method": "uniform", "model.recompute_num_layers": 1},
            structs.replace(setup, recompute=Recompute.UNIFORM, recompute_layers=1, modules=frozenset()),
        )
    if whole:
        return
    wanted = {"core_attn": "AL", "mlp": "-", "moe": "E", "moe_act": "E", "layernorm": "EL", "mla_up_proj": "L"}
    if setup.shape.moe_shared_expert_intermediate_size:
        wanted["shared_experts"] = "E"
    for module, layers in wanted.items():
        if module in setup.modules or not kinds & set(layers):
            continue
        modules = setup.modules | {module}
        yield (
            f"recompute {module}",
            {"model.recompute_granularity": "selective", "model.recompute_modules": sorted(modules)},
            structs.replace(setup, recompute=Recompute.SELECTIVE, modules=modules),
        )


def _kernels(setup: Setup) -> Iterator[_Change]:
    shape = setup.shape
    if shape.gated_linear_unit and shape.activation in FUSIBLE_GATED and not fused_activation(setup):
        yield "fused activation", {"model.bias_activation_fusion": True}, structs.replace(setup, activation_fused=True)
    if setup.entropy is not Entropy.TE:
        settings = {"model.cross_entropy_loss_fusion": True, "model.cross_entropy_fusion_impl": "te"}
        yield "cross entropy of Transformer Engine", settings, structs.replace(setup, entropy=Entropy.TE)
    if setup.entropy is Entropy.FUSED:
        settings = {"model.cross_entropy_loss_fusion": False}
        yield "unfused cross entropy", settings, structs.replace(setup, entropy=Entropy.UNFUSED)
    if setup.tp > 1 and not setup.sp:
        yield "sequence parallel", {"model.sequence_parallel": True}, structs.replace(setup, sp=True)


def _sizes(setup: Setup) -> Iterator[_Change]:
    if setup.length > 512 and setup.length % 2 == 0:
        half = setup.length // 2
        yield "half the length", {"dataset.seq_length": half, "model.seq_length": half}, structs.replace(setup, length=half)
    if setup.mbs > 1:
        mbs = setup.mbs // 2
        settings = {"train.micro_batch_size": mbs}
        yield "half the micro batch", settings, structs.replace(setup, mbs=mbs, microbatches=2 * setup.microbatches)
    room = setup.gpus // (setup.tp * setup.pp * setup.cp)
    shape = setup.shape
    for field, key, name in (
        ("tp", "model.tensor_model_parallel_size", "tensor parallel"),
        ("cp", "model.context_parallel_size", "context parallel"),
        ("pp", "model.pipeline_model_parallel_size", "pipeline parallel"),
    ):
        size = 2 * getattr(setup, field)
        if room % 2 or not _divides(setup, field, size):
            continue
        changed = structs.replace(setup, microbatches=2 * setup.microbatches, **{field: size})
        settings = {key: size}
        if field == "tp":
            changed = structs.replace(changed, sp=True)
            settings["model.sequence_parallel"] = True
        elif field == "pp":
            changed = structs.replace(changed, stages=(), mtp_stage=None)
        yield f"{name} x 2", settings, changed
    ranks = setup.gpus // (setup.pp * setup.etp)
    if shape.num_moe_experts and ranks % (2 * setup.ep) == 0 and shape.num_moe_experts % (2 * setup.ep) == 0:
        settings = {"model.expert_model_parallel_size": 2 * setup.ep}
        yield "expert parallel x 2", settings, structs.replace(setup, ep=2 * setup.ep)


def _divides(setup: Setup, field: str, size: int) -> bool:
    shape = setup.shape
    if field == "tp":
        return shape.num_attention_heads % size == 0 and size <= 8
    if field == "cp":
        return setup.length % (2 * size) == 0
    return len(layer_kinds(shape)) % (size * setup.vpp) == 0


def _states(setup: Setup) -> Iterator[_Change]:
    lora = setup.lora
    if setup.grad_bytes == 4:
        settings: dict[str, Any] = {"mixed_precision.grad_reduce_in_fp32": False, "ddp.grad_reduce_in_fp32": False}
        yield "gradients in BF16", settings, structs.replace(setup, grad_bytes=2)
    if setup.sharded and setup.moment_bytes > 4:
        settings = {
            "optimizer.use_precision_aware_optimizer": True,
            "optimizer.exp_avg_dtype": "bfloat16",
            "optimizer.exp_avg_sq_dtype": "bfloat16",
        }
        yield "Adam moments in BF16", settings, structs.replace(setup, moment_bytes=4, precision_aware=True)
    if not setup.sharded:
        settings = {"optimizer.use_distributed_optimizer": True, "ddp.use_distributed_optimizer": True}
        yield "distributed optimizer", settings, structs.replace(setup, sharded=True)
    if setup.offload < 1:
        settings = {"optimizer.optimizer_cpu_offload": True, "optimizer.optimizer_offload_fraction": 1.0}
        yield "optimizer on the host", settings, structs.replace(setup, offload=1.0)
    attention = frozenset({"linear_qkv", "linear_proj"})
    if lora is not None and lora.targets - attention and attention & lora.targets:
        targets = sorted(attention & lora.targets)
        yield (
            "adapters on attention alone",
            {"peft.target_modules": targets},
            structs.replace(setup, lora=structs.replace(lora, targets=frozenset(targets))),
        )
    if lora is not None and setup.gathers and not lora.regather and setup.release >= (0, 6):
        settings = {"peft.sequence_parallel_input_regather": True}
        yield "adapters gather again", settings, structs.replace(setup, lora=structs.replace(lora, regather=True))
