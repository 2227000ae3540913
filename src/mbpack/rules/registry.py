"""Every rule module, listed explicitly: a new one is added here, nowhere else."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module

from mbpack.config.settings import Settings
from mbpack.config.watch import Watch
from mbpack.facts.releases import Release
from mbpack.rules import (
    alignment,
    attention_kernels,
    attention_variants,
    batch,
    command_line,
    context_parallel,
    cp_comm,
    data_sources,
    dataset_kwargs,
    deterministic,
    documents,
    dynamic_cp,
    energon,
    energon_encoders,
    energon_native,
    energon_runtime,
    expert_topology,
    experts,
    expressions,
    families,
    global_batch,
    global_batch_notes,
    global_batch_size,
    graph_capture,
    graph_scopes,
    graph_spelling,
    graphs,
    hf_sources,
    hybrid_layers,
    in_batch,
    internal,
    keys,
    launch_flags,
    lengths,
    loss,
    models,
    multiples,
    nested_objects,
    no_numbers,
    null_numbers,
    online,
    optimizer_precision,
    pack_building,
    pack_jobs,
    pack_size,
    packed_data,
    packed_metadata,
    packed_rows,
    packed_shards,
    packing_modes,
    pipeline,
    pipeline_comm,
    precision,
    preprocessing,
    recompute,
    schedule,
    stage_counts,
    stage_layout,
    stages,
    steps,
    structure,
    targets,
    tokenisation,
    topology,
    validation_sets,
    values,
    varying_width,
    vlm_rows,
    width,
)
from mbpack.rules.base import Rule
from mbpack.rules.watched import WATCHED

#: Modules that are asked about every configuration.
ALWAYS = (
    alignment,
    attention_kernels,
    attention_variants,
    batch,
    in_batch,
    command_line,
    context_parallel,
    cp_comm,
    data_sources,
    hf_sources,
    preprocessing,
    dataset_kwargs,
    documents,
    dynamic_cp,
    energon,
    energon_encoders,
    energon_native,
    energon_runtime,
    experts,
    expressions,
    families,
    global_batch,
    global_batch_notes,
    global_batch_size,
    graph_capture,
    graph_scopes,
    graphs,
    graph_spelling,
    internal,
    keys,
    launch_flags,
    lengths,
    loss,
    models,
    hybrid_layers,
    multiples,
    online,
    pack_building,
    pack_jobs,
    pack_size,
    packed_data,
    packed_metadata,
    packed_rows,
    packed_shards,
    packing_modes,
    pipeline,
    pipeline_comm,
    precision,
    optimizer_precision,
    deterministic,
    recompute,
    schedule,
    stage_counts,
    stage_layout,
    stages,
    steps,
    vlm_rows,
    structure,
    nested_objects,
    targets,
    tokenisation,
    topology,
    expert_topology,
    validation_sets,
    no_numbers,
    values,
    null_numbers,
    varying_width,
    width,
)


@cache
def module_rules(name: str) -> tuple[Rule, ...]:
    """The rules of a watched module."""
    rules: tuple[Rule, ...] = import_module(f"mbpack.rules.{name}").RULES
    return rules


def rules_for(settings: Settings) -> tuple[Rule, ...]:
    """The rules to ask about a configuration, those that read what stopped the others last."""
    release = settings.version.release
    return _rules(release, _watch(release).seen(settings))


@cache
def _watch(release: Release) -> Watch:
    return Watch(release, WATCHED)


@lru_cache(maxsize=512)
def _rules(release: Release, names: frozenset[str]) -> tuple[Rule, ...]:
    rules = [rule for module in ALWAYS for rule in module.RULES]
    rules += [rule for name in WATCHED if name in names for rule in module_rules(name)]
    return tuple(sorted((rule for rule in rules if rule.applies(release)), key=lambda rule: rule.late))
