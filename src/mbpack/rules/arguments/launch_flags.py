"""Flags of ``scripts/training/run_recipe.py`` that switch packing on or off beside the configuration."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config import in_effect
from mbpack.config.run import Run
from mbpack.config.settings import Origin, Setting
from mbpack.facts.hard_blocks import PACKING_PRESET, unpacked_presets
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07
from mbpack.rules.base import IGNORED, REJECTED_LOAD, SILENT, Finding, Fix, RejectingRule, Rule, set_to

PACKED, DATASET = "packed_sequence", "dataset"


def flag_of(run: Run, name: str) -> str | None:
    """The value of a launch flag, however it is spelled (``--packed_sequence``, ``--packed-sequence``)."""
    for written, value in run.context.flags.items():
        if written.lstrip("-").replace("-", "_") == name:
            return value
    return None


def place_of(name: str, value: str) -> Setting:
    """The place of a flag in reports: the launch command."""
    return Setting(f"--{name}", value, Origin.OVERRIDE)


class PackedSequenceFlag(RejectingRule):
    """run_recipe.py's --packed_sequence does nothing in 0.3, half of it in 0.4 and 0.5, and is gone from 0.6 on.

    0.3 passes it only to recipes that take it, and none does. 0.4 and 0.5 use it with `--dataset llm-finetune`, with a
    pad multiple of 1 that is wrong under context parallelism, and drop it with a preloaded dataset. From 0.6 on Hydra
    meets it as an override and stops.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config --packed_sequence
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config dataset.enable_offline_packing=true
    ```

    ## Upstream
    - 0.3 to 0.5: `scripts/training/run_recipe.py`; 0.4, 0.5: `recipes/utils/dataset_utils.py`, `apply_dataset_override`
    - 0.6, 0.7: `scripts/training/run_recipe.py` has no such flag
    """

    code, slug = "RUN101", "run/packed-sequence-flag"
    releases = (R03, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        value = flag_of(run, PACKED)
        if value is None:
            return
        setting = place_of(PACKED, value)
        keys = "enable_offline_packing and offline_packing_specs" if run.release >= R06 else "packed_sequence_specs"
        fix = Fix(f"set dataset.{keys} instead of the flag")
        if run.release >= R06:
            message = f"run_recipe.py of {run.release} has no --packed_sequence; it stops at the override parser"
            yield self.finding(run, REJECTED_LOAD, "", message, fix=fix, setting=setting, station="load")
            return
        preset = flag_of(run, DATASET)
        if preset == PACKING_PRESET and run.release >= R04:
            if run.cp > 1:
                needed = in_effect.needed_multiple(run)
                yield self.finding(
                    run,
                    SILENT,
                    "",
                    f"--packed_sequence packs with pad_seq_to_mult 1, but context parallel {run.cp} needs {needed}",
                    why="Samples that do not divide are cut wrongly over the ranks, without a message.",
                    related=("model.context_parallel_size",),
                    fix=Fix(
                        f"pad_seq_to_mult: {needed.value}",
                        set_to(run, (f"{SPECS}.pad_seq_to_mult", needed.value)),
                    ),
                    setting=setting,
                )
            return
        where = "" if preset is None else f" with --dataset {preset}"
        message = f"--packed_sequence does nothing{where} in {run.release}"
        why = "It is passed on only to recipes that take it, and none does." if run.release is R03 or preset is None else ""
        yield self.finding(run, IGNORED, "", message, why=why, fix=fix, setting=setting)


class DatasetFlagUnpacks(Rule):
    """run_recipe.py's --dataset replaces the recipe's dataset, and with it the packing.

    `llm-finetune` (0.4, 0.5) is unpacked unless `--packed_sequence` is given; the text presets of 0.6 and later are
    unpacked until `dataset.enable_offline_packing=true` switches packing on again.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config --dataset squad
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config
    ```

    ## Upstream
    - 0.4, 0.5: `recipes/utils/dataset_utils.py`, `apply_dataset_override`
    - 0.6, 0.7: `recipes/utils/dataset_utils.py`, `build_dataset_config`
    """

    code, slug = "RUN102", "run/dataset-flag-unpacks"
    releases = (R04, R07)

    def check(self, run: Run) -> Iterator[Finding]:
        preset = flag_of(run, DATASET)
        if preset is None or preset not in unpacked_presets(run.release):
            return
        if run.release <= R05:
            if (flag_of(run, PACKED) is not None and preset == PACKING_PRESET) or run.wrote(SPECS):
                return
            again = "dataset.packed_sequence_specs with its _target_"
        else:
            if run.wrote(OFFLINE_SWITCH) and run.flag(OFFLINE_SWITCH):
                return
            again = "dataset.enable_offline_packing=true +dataset.offline_packing_specs.pad_seq_to_mult=N"
        yield self.finding(
            run,
            IGNORED.as_warning(),
            "",
            f"--dataset {preset} replaces the recipe's dataset by an unpacked one",
            why="Whatever packing the recipe sets is lost.",
            fix=Fix(f"{again} switches packing on again"),
            setting=place_of(DATASET, preset),
        )


RULES: tuple[Rule, ...] = (
    PackedSequenceFlag(),
    DatasetFlagUnpacks(),
)
