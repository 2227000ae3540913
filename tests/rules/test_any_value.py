"""Rules about nested objects and sources answer any kind of value; none raises anything but Unknown and WrongKind."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.sections import SECTION_NAMES
from mbpack.rules.attention import switches as attention_switches
from mbpack.rules.data import hf_sources, pretraining_data, tokenizer_kwargs
from mbpack.rules.files import nested_objects
from mbpack.rules.graphs import switches as graph_switches
from mbpack.rules.memory import activation_offload, recompute
from mbpack.rules.model import activations, bases, hybrid_layers, paged_stash
from mbpack.rules.parallel import (
    ddp_buckets,
    expert_overlap,
    fsdp_limits,
    pipeline,
    pipeline_comm,
    stage_counts,
    stage_layout,
    stages,
)
from mbpack.rules.training import (
    adapters,
    bf16_layers,
    checkpoint_files,
    checkpoints,
    fp8_fields,
    optimizer_precision,
)

MODULES: tuple[ModuleType, ...] = (
    *(adapters, checkpoint_files, fsdp_limits, pretraining_data),
    *(activation_offload, graph_switches, paged_stash),
    *(activations, bf16_layers, fp8_fields, bases, tokenizer_kwargs),
    attention_switches,
    *(checkpoints, ddp_buckets, expert_overlap, hf_sources, hybrid_layers, nested_objects, optimizer_precision),
    *(
        pipeline,
        pipeline_comm,
        recompute,
        stage_counts,
        stage_layout,
        stages,
    ),
)
RULES = [rule for module in MODULES for rule in module.RULES]
#: Keys that the modules name in a constant.
NAMED = sorted(
    {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, str) and value.partition(".")[0] in SECTION_NAMES and "." in value
    }
)
SOURCE = ("dataset_name", "path_or_dataset", "split", "subset", "schema_adapter", "load_kwargs", "adapter_kwargs", "_target_")
KEYS = (
    *NAMED,
    *(f"{section}.{name}" for section in ("model", "mixed_precision") for name in ("fp8", "fp8_recipe", "fp4", "fp4_recipe")),
    *(f"model.{name}" for name in ("fp8_param", "fp4_param", "fp8_output_proj", "first_last_layers_bf16")),
    *(f"model.num_layers_at_{end}_in_bf16" for end in ("start", "end")),
    *("tokenizer.hf_tokenizer_kwargs", "tokenizer.sp_tokenizer_kwargs", "mixed_precision.fp8_param_gather"),
    *(f"dataset.{source}.{name}" for source in ("source", "test_source", "hf_dataset") for name in SOURCE),
    *(f"dataset.{name}" for name in ("source", "hf_dataset", "preprocessing", "task_encoder", "hf_processor_path", "do_test")),
    *("dataset._target_", "dataset.offline_packing_specs", "dataset.source.load_kwargs.data_files", "comm_overlap"),
    *("comm_overlap.defer_embedding_wgrad_compute", "comm_overlap.wgrad_deferral_limit", "model.pipeline_model_parallel_size"),
    *(
        f"model.{name}"
        for name in ("pipeline_model_parallel_layout", "virtual_pipeline_model_parallel_size", "num_layers", "mtp_num_layers")
    ),
    *(f"model.num_layers_in_{end}_pipeline_stage" for end in ("first", "last")),
    *(f"model.account_for_{name}_in_pipeline_split" for name in ("embedding", "loss")),
    *("model.overlap_p2p_comm_warmup_flush", "mixed_precision", "mixed_precision.pipeline_dtype", "model.params_dtype"),
    *("model.pipeline_dtype", "comm_overlap.overlap_p2p_comm", "optimizer.overlap_param_gather_with_optimizer_step"),
    *(f"model.{name}" for name in ("recompute_granularity", "recompute_modules", "attention_dropout", "cuda_graph_impl")),
)
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    (
        *(None, True, False, 0, 1, -1, 2, 10**30, 0.5, float("inf"), "", " ", "squad", "train", "train+", "x", "selective"),
        *(
            "Et*32L",
            "Et*16|t*16L",
            "Et*999999999999L",
            "E(t|)*4L",
            "|",
            "8",
            [["embedding"], ["loss"]],
            [["embedding", 1]],
            [[]],
            32,
            16,
        ),
        *(
            [],
            [1],
            [""],
            ["core_attn"],
            {},
            {"a": 1},
            {1: 2},
            {"data_files": None},
            {"data_files": {1: ""}},
            {"split": "a"},
            "???",
        ),
        *("${x}", "transformer_engine", "megatron.bridge.data.sources.hf.HFDatasetSourceConfig", {"_target_": "no.Such"}),
    )
)
RECIPES = ("llama3_8b_sft_config", "qwen25_vl_7b_sft_config", "qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config", None)


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=60, deadline=None)
@given(values=st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=5))
def test_any_kind_of_value(recipe: str | None, values: dict[str, Any]) -> None:
    tree: dict[str, Any] = {}
    for key, value in sorted(values.items()):
        *owners, name = key.split(".")
        at = tree
        for owner in owners:
            if not isinstance(at.get(owner), dict):
                at[owner] = {}
            at = at[owner]
        at[name] = dict(value) if isinstance(value, dict) else value
    documents = [parse(yaml.safe_dump(tree))]
    context = resolve_context(Given("0.6", recipe=recipe, gpus=8), Given(), documents)
    run = build_run(context, documents)
    for rule in RULES:
        with suppress(Unknown, WrongKind):
            for finding in rule.check(run):
                assert finding.message
