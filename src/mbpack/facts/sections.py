"""Sections that a start-up needs, and where it stops when one of them is no object (null, a number, a list)."""

from __future__ import annotations

from mbpack.facts.releases import R03, R05, R06, Release

#: Sections of the container in any release (a test compares them with the schemas; reading all of those takes too long).
SECTION_NAMES = frozenset(
    "checkpoint comm_overlap dataset ddp dist env_vars ft inprocess_restart logger mixed_precision model nvrx_straggler "
    "optimizer optimizer_config_override_provider peft profiling rerun_state_machine rng scheduler straggler tensor_inspect "
    "tokenizer train validation".split()
)

#: Methods of the container that `runtime_config_update` calls, in any release.
CONTAINER_METHODS = (
    "validate",
    "set_data_parallel_size",
    "get_data_parallel_size",
    "_validate_and_apply_deterministic_mode",
)

_ALWAYS = {
    "model": "section:model@start",
    "logger": "section:logger",
    "train": "section:train",
    "scheduler": "section:scheduler",
    "checkpoint": "section:checkpoint",
    "rng": "section:rng",
    "optimizer": "attn/deterministic",
    "ddp": "fsdp/per-token",
    "dist": "fsdp/per-token",
}


def stops_at(release: Release, section: str) -> str | None:
    """The station where a start-up without this section stops; None where it is optional or the validation never asks."""
    if section == "validation":
        return "section:validation" if release >= R05 else None
    if section == "dist" and release >= R06:
        return "section:dist"
    if section == "env_vars" and release >= R06:
        return "load"
    return _ALWAYS.get(section)


def required(release: Release) -> tuple[str, ...]:
    """Sections without a default: a complete file that lacks one is refused at load."""
    base = ("train", "model", "optimizer", "scheduler", "dataset", "logger", "tokenizer", "checkpoint")
    return base if release >= R03 else ()
