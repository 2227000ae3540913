"""Recorded peaks of GPUs, and the set-up each of them stands for.

`tests/data/memory/recordings.jsonl.gz`, one a line: `megatron-lm-golden` (the largest allocated size that a functional
test of Megatron-LM records, of its last rank, beside its arguments), `bridge-published` (figures in skills, cards and pull
requests of Megatron-Bridge), `bridge-card-completed` (runs that finished), `recorded-oom`. `from` names the source of each.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

from msgspec import structs

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.overrides import parse_overrides
from mbpack.facts.gpus import Gpu, find_gpu
from mbpack.facts.shapes import Shape
from mbpack.facts.stage_layout import DECODER, MTP, parse
from mbpack.memory.reading import Described, describe
from mbpack.memory.setup import Attention, Entropy, Recompute, Setup

DATA = Path(__file__).resolve().parent.parent / "data" / "memory" / "recordings.jsonl.gz"
#: The recipe of the development tree that a published figure belongs to, by its model.
RECIPES = {
    "meta-llama/Meta-Llama-3-70B": "llama3_70b_sft_32gpu_h100_fp8cs_config",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nemotron_3_nano_pretrain_8gpu_h100_bf16_config",
    "Qwen/Qwen3-8B": "qwen3_8b_peft_1gpu_h100_bf16_config",
    "openai/gpt-oss-120b": "gpt_oss_120b_peft_8gpu_h100_bf16_config",
    "moonshotai/Moonlight-16B-A3B": "moonlight_16b_pretrain_8gpu_h100_bf16_config",
    "Qwen/Qwen3-30B-A3B": "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config",
}
_PARALLEL = "tensor_model pipeline_model context expert_model virtual_pipeline_model".split()


@functools.cache
def records(*kinds: str) -> tuple[dict[str, Any], ...]:
    """The recordings of some kinds."""
    lines = gzip.decompress(DATA.read_bytes()).decode().splitlines()
    return tuple(record for record in map(json.loads, lines) if record["kind"] in kinds)


def gpu_of(record: dict[str, Any]) -> Gpu:
    found = find_gpu(record["gpu"])
    assert found is not None, record["gpu"]
    return found


# ---------------------------------------------------------------------- Megatron-LM's tests


def megatron_lm(record: dict[str, Any]) -> Setup:
    """The set-up of a functional test, from its arguments and Megatron-LM's defaults for the others."""
    given = record["arguments"]
    shape = _shape(given, record["vocabulary"])
    tp, pp, cp = (given.get(f"{name}-parallel-size", 1) for name in ("tensor-model", "pipeline-model", "context"))
    gpus = record["gpus"]
    mbs, dp = given["micro-batch-size"], max(1, gpus // (tp * pp * cp))
    row = given.get("make-vocab-size-divisible-by", 128) * tp
    granularity = given.get("recompute-granularity")
    local = given.get("transformer-impl") == "local"
    return Setup(
        shape,
        gpus=gpus,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=given.get("expert-model-parallel-size", 1),
        etp=given.get("expert-tensor-parallel-size") or tp,
        sp=bool(given.get("sequence-parallel")),
        length=given["seq-length"],
        mbs=mbs,
        microbatches=max(1, (given.get("global-batch-size") or 768) // mbs // dp),
        **_virtual(given, shape, pp),
        recompute={None: Recompute.NONE, "selective": Recompute.SELECTIVE}.get(granularity, Recompute.UNIFORM),
        modules=frozenset(re.findall(r"\w+", str(given.get("recompute-modules") or "core_attn"))) if granularity else frozenset(),
        sharded=bool(given.get("use-distributed-optimizer")),
        grad_bytes=2 if given.get("grad-reduce-in-bf16") else 4,
        fp8=bool(given.get("fp8-format")),
        fp8_params=bool(given.get("fp8-param-gather")),
        entropy=_entropy(given),
        attention=Attention.UNFUSED if local or given.get("attention-backend") == "unfused" else Attention.FLASH,
        activation_fused=shape.gated_linear_unit,
        squared_relu_fused=bool(given.get("use-fused-weighted-squared-relu")),
        rope_fused=not given.get("no-rope-fusion") or shape.positions > 0,
        dropout=given.get("hidden-dropout", 0.1) > 0,
        attention_dropout=given.get("attention-dropout", 0.1) > 0,
        graphs="cuda-graph-impl" in given,
        expert_overlap=bool(given.get("overlap-moe-expert-parallel-comm")),
        deferred_head=given.get("wgrad-deferral-limit", 0) if given.get("defer-embedding-wgrad-compute") else None,
        padded_vocab=math.ceil(record["vocabulary"] / row) * row,
        **_router(given),
    )


def _entropy(given: dict[str, Any]) -> Entropy:
    if not given.get("cross-entropy-loss-fusion"):
        return Entropy.UNFUSED
    return Entropy.TE if given.get("cross-entropy-fusion-impl") == "te" else Entropy.FUSED


def _router(given: dict[str, Any]) -> dict[str, Any]:
    if not given.get("num-experts"):
        return {}
    balance = given.get("moe-router-load-balancing-type", "aux_loss")
    weighted = balance.endswith("aux_loss") and float(given.get("moe-aux-loss-coeff", 0)) > 0
    return {
        "router_fp32": given.get("moe-router-dtype") == "fp32",
        "router_pre_softmax": bool(given.get("moe-router-pre-softmax")),
        "router_sigmoid": given.get("moe-router-score-function") == "sigmoid",
        "aux_loss": balance if weighted else "",
        "router_groups": given.get("moe-router-num-groups") or 0,
        "router_group_topk": given.get("moe-router-group-topk") or 0,
        "allgather": given.get("moe-token-dispatcher-type", "allgather") == "allgather",
        "shared_overlap": bool(given.get("moe-shared-expert-overlap")),
        "grouped_gemm": bool(given.get("moe-grouped-gemm")),
    }


def _virtual(given: dict[str, Any], shape: Shape, pp: int) -> dict[str, Any]:
    layout = given.get("pipeline-model-parallel-layout")
    if layout:
        parts = parse(layout)
        depths = [index for index, part in enumerate(parts) if MTP in part]
        counts = tuple(part.count(DECODER) for part in parts)
        return {"vpp": len(parts) // pp, "stages": counts, "mtp_stage": depths[0] if depths else None}
    each = given.get("num-layers-per-virtual-pipeline-stage")
    return {"vpp": shape.num_layers // pp // each if each else given.get("num-virtual-stages-per-pipeline-rank") or 1}


def _shape(given: dict[str, Any], vocabulary: int) -> Shape:
    hidden, layers, heads = given["hidden-size"], given["num-layers"], given["num-attention-heads"]
    gated = bool(given.get("swiglu"))
    ffn = given.get("ffn-hidden-size") or (int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden)
    experts, latent = given.get("num-experts") or 0, bool(given.get("multi-latent-attention"))
    main, *depths = (given.get("hybrid-layer-pattern") or given.get("hybrid-override-pattern") or "").split("/")
    learned = given.get("position-embedding-type", "learned_absolute") == "learned_absolute"
    frequency = given.get("moe-layer-freq")
    return Shape(
        name="functional test",
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_query_groups=(given.get("num-query-groups") if given.get("group-query-attention") else None) or heads,
        kv_channels=given.get("kv-channels") or hidden // heads,
        ffn_hidden_size=ffn,
        vocab_size=vocabulary,
        gated_linear_unit=gated,
        activation="silu" if gated else "squared_relu" if given.get("squared-relu") else "gelu",
        normalization=given.get("normalization", "LayerNorm"),
        add_bias_linear=not given.get("disable-bias-linear"),
        qk_layernorm=bool(given.get("qk-layernorm")),
        share_embeddings_and_output_weights=not given.get("untie-embeddings-and-output-weights"),
        positions=given["max-position-embeddings"] if learned else 0,
        num_moe_experts=experts,
        moe_router_topk=given.get("moe-router-topk", 2) if experts else 0,
        moe_ffn_hidden_size=(given.get("moe-ffn-hidden-size") or ffn) if experts else 0,
        moe_shared_expert_intermediate_size=given.get("moe-shared-expert-intermediate-size") or 0,
        moe_layer_freq=_frequency(frequency) if experts and frequency else (),
        moe_latent_size=given.get("moe-latent-size") or 0,
        multi_latent_attention=latent,
        q_lora_rank=given.get("q-lora-rank") or 0,
        kv_lora_rank=given.get("kv-lora-rank", 512) if latent else 0,
        qk_head_dim=given.get("qk-head-dim", 128) if latent else 0,
        qk_pos_emb_head_dim=given.get("qk-pos-emb-head-dim", 64) if latent else 0,
        v_head_dim=given.get("v-head-dim", 128) if latent else 0,
        mtp_num_layers=given.get("mtp-num-layers") or len(depths),
        mtp_shared=bool(given.get("mtp-use-repeated-layer")),
        mtp_pattern=depths[0] if depths else "",
        hybrid_layer_pattern=main,
        mamba_num_heads=given.get("mamba-num-heads") or 0,
        mamba_head_dim=given.get("mamba-head-dim", 64),
        mamba_num_groups=given.get("mamba-num-groups", 8),
        mamba_state_dim=given.get("mamba-state-dim", 128),
    )


def _frequency(text: str) -> tuple[int, ...]:
    return tuple(int(digit) for digit, times in re.findall(r"\[([01])\]\*(\d+)", text) for _ in range(int(times)))


# ---------------------------------------------------------------------- Megatron-Bridge's runs


def described(record: dict[str, Any]) -> Described | None:
    """The set-up of a run of Megatron-Bridge, None where no recipe of the development tree stands for it."""
    settings = record.get("configuration", {})
    recipe = record.get("recipe") or settings.get("recipe") or RECIPES.get(settings.get("model", ""))
    if recipe is None:
        return None
    length = record.get("flags", {}).get("seq_length")
    overrides = [*record.get("overrides", ()), *_overrides(settings), *_flags(record.get("flags", {}))]
    context = resolve_context(Given(bridge="nightly", recipe=recipe, gpus=record["gpus"]), Given(), [])
    run = build_run(context, [], parse_overrides(overrides))
    found = describe(run, length=int(length) if length else None)
    lora = found.setup.lora
    if lora is not None and settings.get("sequence_parallel_input_regather"):
        setup = structs.replace(found.setup, lora=structs.replace(lora, regather=True))
        return structs.replace(found, setup=setup)
    return found


def _flags(flags: dict[str, str]) -> list[str]:
    names = [f"{name}_parallel_size" for name in _PARALLEL]
    return [f"model.{name}={flags[name]}" for name in names if name in flags]


def _overrides(settings: dict[str, Any]) -> list[str]:
    found = {f"model.{name}_parallel_size": settings.get(f"{name}_parallel_size") for name in _PARALLEL}
    found["model.sequence_parallel"] = settings.get("sequence_parallel")
    for name in ("micro_batch_size", "global_batch_size"):
        found[f"train.{name}"] = settings.get(name)
    length = settings.get("seq_length")
    found |= {"model.seq_length": length, "dataset.seq_length": length}
    if settings.get("task") in ("peft", "sft"):
        found["dataset.offline_packing_specs.packed_sequence_size"] = length
    if settings.get("lora_dim"):
        found |= {"peft.dim": settings["lora_dim"], "peft.target_modules": settings["lora_target_modules"]}
    if str(settings.get("cross_entropy")).startswith("te"):
        found |= {"model.cross_entropy_loss_fusion": True, "model.cross_entropy_fusion_impl": "te"}
    found["model.bias_activation_fusion"] = settings.get("bias_activation_fusion")
    found["model.moe_router_force_load_balancing"] = settings.get("routing") == "forced balance" or None
    found["model.overlap_moe_expert_parallel_comm"] = settings.get("overlap_moe_expert_parallel_comm")
    found["model.cuda_graph_impl"] = "none" if settings.get("cuda_graphs") == "none" else None
    found["model.moe_token_dispatcher_type"] = "alltoall" if settings.get("dispatcher") == "alltoall" else None
    written = [f"{key}={json.dumps(value)}" for key, value in found.items() if value is not None]
    if "recompute_modules" in settings:
        modules = settings["recompute_modules"]
        written.append(f"model.recompute_granularity={'selective' if modules else 'null'}")
        written += [f"model.recompute_modules={json.dumps(modules)}"] if modules else []
    return written
