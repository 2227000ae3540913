"""Every rule, listed explicitly: a new rule module is added here, nowhere else."""

from __future__ import annotations

from functools import cache

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
    documents,
    dynamic_cp,
    energon,
    energon_encoders,
    energon_native,
    energon_runtime,
    experts,
    families,
    global_batch,
    graph_capture,
    graphs,
    internal,
    keys,
    launch_flags,
    lengths,
    loss,
    models,
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
    precision,
    schedule,
    stages,
    steps,
    structure,
    tokenisation,
    topology,
    validation_sets,
    values,
    varying_width,
    width,
)
from mbpack.rules.base import Rule

_MODULES = (
    alignment,
    attention_kernels,
    attention_variants,
    batch,
    command_line,
    context_parallel,
    cp_comm,
    data_sources,
    documents,
    dynamic_cp,
    energon,
    energon_encoders,
    energon_native,
    energon_runtime,
    experts,
    families,
    global_batch,
    graph_capture,
    graphs,
    internal,
    keys,
    launch_flags,
    lengths,
    loss,
    models,
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
    precision,
    schedule,
    stages,
    steps,
    structure,
    tokenisation,
    topology,
    validation_sets,
    values,
    varying_width,
    width,
)

ALL_RULES: tuple[Rule, ...] = tuple(rule for module in _MODULES for rule in module.RULES)
BY_NAME: dict[str, Rule] = {name: rule for rule in ALL_RULES for name in (rule.code, rule.slug)}


@cache
def rules_for(release: Release) -> tuple[Rule, ...]:
    """The rules that concern a release, those that read what stopped the others last."""
    chosen = [rule for rule in ALL_RULES if rule.applies(release)]
    return tuple(sorted(chosen, key=lambda rule: rule.late))
