"""The order in which a start-up checks: which refusal is the one that upstream would show.

A *station* is a place where a start-up can stop; most carry the slug of the rule they belong to, some a rule has a
second station for (``slug@place``). A station that a release lacks is simply never used there. Source: the release's
``ConfigContainer.from_dict`` or override machinery, ``runtime_config_update``, ``ConfigContainer.validate`` and the
``validate``/``finalize`` methods it calls.
"""

from __future__ import annotations

from functools import cache

from mbpack.facts.releases import R03, R04, R05, R06, Release

#: Stations before ``validate``: reading the file, then mixed precision, data parallel size, communication overlap.
_START = (
    "load",
    "cfg/unresolved-reference",
    "cfg/section-missing",
    "cfg/env-vars",
    "section:mixed_precision",
    "prec/fp8-fields@mixed",
    "prec/unknown-name",
    "section:model@start",
    "cfg/null-number",
    "topo/world-divisible",
    "comm-overlap",
)

#: Megatron-Core's transformer configuration, in its own order.
_MODEL = (
    "ssm/chunk-size",
    "ssm/layer-pattern",
    "act/unknown-function",
    "section:model",
    "topo/sp-without-tp",
    "topo/weight-shards",
    "pp/dtype-missing",
    "pp/defer-embedding-wgrad",
    "cfg/null-number@experts",
    "pp/warmup-flush",
    "prec/bf16-and-fp16",
    "topo/heads-divisible",
    "cfg/null-size",
    "topo/query-groups-divisible",
    "gdn/frequency",
    "gdn/packed",
    "dsa/fields",
    "prec/model",
    "prec/bf16-layers",
    "prec/fp8-fields",
    "topo/ep-needs-moe",
    "inference/experts",
    "moe/expert-count",
    "moe/single-grouped",
    "moe/dispatcher",
    "moe/ncclep-needs-flex",
    "moe/num-sms",
    "moe/shared-experts",
    "moe/load-balancing",
    "moe/rank-capacity",
    "graph/cpu-offload@layers",
    "recompute/full-needs-method",
    "recompute/modules",
    "recompute/module-missing",
    "recompute/moe-layer",
    "offload/modules",
    "offload/sizes",
    "offload/modules@fused",
    "moe/paged-stash",
    "pp/stage-counts",
    "pp/stage-layout",
    "act/fusions",
    "attn/gated-rope",
    "mla/rope-and-gate@interleaved",
    "mup/base-size",
    "section:model@layers",
    "cfg/null-size@init",
    "topo/expert-bias-etp",
    "moe/expert-bias",
    "moe/router-padding",
    "moe/router-topk",
    "moe/router-groups",
    "graph/old-switches",
    "graph/scope-and-modules",
    "graph/scope-names",
    "graph/full-iteration-spelling",
    "graph/inference-scope",
    "graph/full-iteration-spelling@modules",
    "graph/cpu-offload",
    "graph/full-iteration-spelling@old",
    "graph/moe-scope-combinations",
    "graph/mlp-scope-needs-dense",
    "graph/moe-scope-combinations@padding",
    "recompute/full-with-te-graphs",
    "graph/moe-scope-combinations@recompute",
    "recompute/graphed-dropout",
    "offload/graphs",
    "pp/allgather-variable",
    "topo/ep-overlap-conditions",
    "offload/modules@overlap",
    "moe/delayed-wgrad",
    "moe/overlap-companions",
    "cp/comm-type-list-length",
    "topo/world-divisible@pipeline",
    "attn/no-rope",
    "inference/layers",
    "dsa/packed",
    "dsa/rope-fusion",
    "inference/switches",
    "attn/batch-invariant",
    "mla/rope-and-gate",
    "graph/te-rng-tracker",
    "topo/vpp",
)

#: The sections that are finalised after the model.
_SECTIONS = (
    "section:logger",
    "log/run-names",
    "section:train",
    "sched/train-mode-exclusive",
    "sched/ramp-up",
    "sched/train-mode-exclusive@batch",
    "sched/num-epochs@train",
    "section:scheduler",
    "sched/steps@decay",
    "sched/resumed-schedule",
    "sched/steps@finalize",
    "section:checkpoint",
    "ckpt/loading@main-params",
    "new/ckpt-stage-precision",
    "fsdp/async-save",
    "ckpt/async-worker",
    "new/ckpt-retain-interval",
    "ckpt/hf-export",
    "ckpt/loading",
    "ckpt/loading@reshardable",
    "section:profiling",
    "log/profiling-window",
    "section:nvrx_straggler",
    "log/straggler",
    "section:tensor_inspect",
    "section:rng",
    "ddp/fp32-patterns@again",
    "ddp/buckets@again",
    "data/tokenizer-kwargs",
)

_CP = ("align/model-seq-2cp", "cp/per-token-loss", "cp/average-in-collective")
_END = (
    "batch/inbatch-mbs-gt-one",
    "peft/pretrained-checkpoint",
    "seq/model-dataset-equal",
    "moe/flex-gpu",
)
_SCHEDULE = ("sched/steps@compat", "sched/steps")
_FSDP_R03 = ("fsdp/limits@torch", "fsdp/per-token", "fsdp/limits@mapping", "fsdp/ckpt")
_FSDP_LATE = (
    "fsdp/limits@torch",
    "fsdp/per-token",
    "fsdp/ckpt",
    "fsdp/limits@connections",
    "fsdp/limits@registration",
    "new/fsdp-meta-device",
    "fsdp/limits",
    "fsdp/limits@mapping",
)
_CHECKPOINT = (
    "quant/modelopt",
    "ckpt/hf-export@source",
    "fsdp/ckpt@format",
    "fsdp/limits@format",
    "fsdp/async-save@format",
    "dist/gloo",
    "dist/gloo@format",
    "ckpt/loading@gloo",
)

#: ``GPTDatasetConfig.finalize``.
_PRETRAINING = ("data/blend@paths", "data/index-cache", "data/blend", "data/mask-flags")

_R03 = (
    *_START,
    "dataset:finalize",
    *_PRETRAINING,
    "section:ddp",
    "ddp/fp32-patterns",
    "ddp/buckets",
    "section:optimizer",
    "opt/precision-aware",
    "opt/state-dtypes",
    *_MODEL,
    *_SECTIONS,
    "section:validation",
    "attn/deterministic",
    "prec/bf16-and-fp16@optimizer",
    "prec/optimizer-flags",
    "offload/runtime",
    "graph/full-iteration-nan-check",
    *_FSDP_R03,
    *_CHECKPOINT,
    *_SCHEDULE,
    *_CP,
    "cp/hierarchical-sizes",
    "cfg/nested-under-none",
    "batch/offline-size-positive",
    "batch/offline-mbs-one",
    *_END,
)
_R05 = (
    *_START,
    "dataset:finalize",
    *_PRETRAINING,
    "section:ddp",
    "ddp/fp32-patterns",
    "ddp/buckets",
    "section:optimizer",
    "opt/precision-aware",
    "opt/state-dtypes",
    *_MODEL,
    *_SECTIONS,
    "section:validation",
    "section:dist",
    "batch/eval-batch-missing",
    "gbs/eval-divisible@zero",
    "gbs/eval-divisible",
    *_FSDP_LATE,
    "prec/mxfp8-reuse",
    "attn/deterministic",
    "prec/bf16-and-fp16@optimizer",
    "prec/optimizer-flags",
    "offload/runtime",
    "graph/full-iteration-nan-check",
    *_CHECKPOINT,
    *_SCHEDULE,
    *_CP,
    "cp/hierarchical-sizes",
    "cfg/nested-under-none",
    "batch/offline-size-positive",
    "batch/offline-mbs-one",
    *_END,
)

#: ``validate`` of the dataset classes; each class uses its own part.
_ENERGON = (
    "nrg/path",
    "dataset:seq-positive",
    "data/mock-vlm",
    "batch/mbs-positive@energon",
    "nrg/worker-counts",
    "nrg/buffer-positive",
    "nrg/exclusive-inbatch",
    "nrg/exclusive-defer",
    "nrg/mbs",
    "data/preprocessing@direct",
    "data/hf-source@direct",
    "align/pad-multiple-positive",
    "nrg/do-test",
    "nrg/encoder-type",
    "nrg/qwen-only",
    "nrg/reserved-kwargs",
    "nrg/encoder-fields",
)
_GPT_SFT = (
    "data/source-exactly-one",
    "data/hf-source",
    "data/source-exactly-one@splits",
    "data/preprocessing",
    "batch/offline-size-positive@dataset",
    "data/hf-rewrite-explicit-paths",
    "data/max-train-samples",
    "batch/gptsft-inbatch-extra",
    "data/dataset-kwargs-deprecated",
)
_BEFORE_PACKING = (
    *_START,
    "section:train",
    "sched/num-epochs",
    "batch/offline-inbatch-exclusive",
)
_OFFLINE = (
    "batch/offline-enable-pair",
    "cfg/nested-under-none",
    "data/pad-cu-requires-max-length",
    "graph/offline-fixed-width",
    "graph/attn-capture-needs-pad-cu",
)
_NATIVE = (
    "nrg/mbs@train",
    "nrg/per-token-loss",
    "nrg/avg-in-collective",
    "nrg/cuda-graphs",
    "nrg/pp",
    "nrg/disttrain",
)
#: ``_validate_global_batch_packing``; the stations of dynamic context parallelism are those of nightly.
_ONLINE = (
    "gbp/dataset-class",
    "dcp/scheduler",
    "gbp/mcore-scheduler",
    "gbp/mbs-one",
    "gbp/per-token-loss",
    "gbp/average-in-collective",
    "gbp/cuda-graphs",
    "gbp/pp",
    "gbp/dataloader-type",
    "gbp/pp@virtual",
    "gbp/mamba",
    "gbp/fsdp",
    "gbp/max-seqlen-required",
    "dcp/no-decentralized-pg",
    "dcp/pool-power-of-two",
    "dcp/min-size",
    "dcp/capacity",
    "gbp/capacity",
    "new/gbp-seq-exceeds-model",
)
_LATE = (
    *_PRETRAINING,
    "section:ddp",
    "new/fsdp-version",
    "ddp/fp32-patterns",
    "ddp/buckets",
    "section:optimizer",
    "pp/step-overlap",
    "opt/precision-aware",
    "opt/state-dtypes",
    "graph/local-scoped",
    "new/dcp-hybrid-both",
    *_MODEL,
    "gtp/limits",
    *_SECTIONS,
    "section:validation",
    "batch/eval-batch-missing",
    "batch/energon-mbs-match@eval",
    "topo/eval-world-divisible",
    "gbs/eval-divisible@zero",
    "gbs/eval-divisible",
    "mtp/frozen-base",
    "moe/shortcut-fsdp",
    "new/layerwise-single-grouped",
    *_FSDP_LATE,
    "prec/mxfp8-reuse",
    "attn/deterministic",
    "prec/bf16-and-fp16@optimizer",
    "prec/optimizer-flags",
    "offload/runtime",
    "graph/full-iteration-nan-check",
    *_CHECKPOINT,
    *_SCHEDULE,
    *_CP,
    "cp/hierarchical-sizes",
    "batch/offline-size-positive",
    "batch/offline-mbs-one",
    *_END,
)
_R06 = (
    *_BEFORE_PACKING,
    *_OFFLINE,
    *_ENERGON,
    "batch/energon-mbs-match",
    "section:dist",
    "align/seq-mult-collate",
    *_GPT_SFT,
    *_LATE,
)
_R07 = (
    *_BEFORE_PACKING,
    "gbp/exclusive",
    "gbp/scheduler-without-switch",
    "dcp/needs-gbp",
    *_OFFLINE,
    "data/source-exactly-one",
    "data/hf-source",
    "data/source-exactly-one@splits",
    "data/preprocessing",
    "align/pad-multiple-positive@in-batch",
    "batch/inbatch-dataloader-batch",
    "align/pad-multiple-positive@global-batch",
    "gbp/dataloader-type@dataset",
    "batch/offline-size-positive@dataset",
    "data/hf-rewrite-explicit-paths",
    "data/max-train-samples",
    "batch/gptsft-inbatch-extra",
    "data/dataset-kwargs-deprecated",
    *_ENERGON,
    "batch/energon-mbs-match",
    *_NATIVE,
    *_ONLINE,
    "section:dist",
    "align/seq-mult-collate",
    *_LATE,
)

#: Later releases have the newest order.
_ORDERS = {R03: _R03, R04: _R03, R05: _R05, R06: _R06}


@cache
def stations(release: Release) -> dict[str, int]:
    """Position of every station of a release; a name that stands twice keeps its first place."""
    positions: dict[str, int] = {}
    for name in _ORDERS.get(release, _R07):
        positions.setdefault(name, len(positions))
    return positions


def position(release: Release, station: str) -> int:
    """Where a station stands in a release; stations without a place come last."""
    known = stations(release)
    found = known.get(station)
    return len(known) if found is None else found
