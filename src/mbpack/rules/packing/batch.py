"""Micro batch sizes against the packing mode."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import (
    CRASH_DATA,
    IGNORED,
    REJECTED,
    SILENT,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
)

MBS, GBS, LOADER_MBS = "train.micro_batch_size", "train.global_batch_size", "dataset.micro_batch_size"
EVAL_MBS, EVAL_GBS = "validation.eval_micro_batch_size", "validation.eval_global_batch_size"
SIZE = "dataset.offline_packing_specs.packed_sequence_size"


class OfflineMbsOne(RejectingRule):
    """Offline packing needs micro_batch_size 1.

    An offline pack already is a full row of tokens, so a microbatch holds exactly one. The start-up refuses a larger
    micro batch; older cores used only the first row's boundaries without a word. The global batch may stay: it counts packs,
    so a step trains on as many tokens as before.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    dataset:
      seq_length: 4096
      enable_offline_packing: true
      offline_packing_specs:
        _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs
        packed_sequence_size: 4096
        pad_seq_to_mult: 1
    train: {micro_batch_size: 2, global_batch_size: 16}
    model: {seq_length: 4096}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    dataset:
      seq_length: 4096
      enable_offline_packing: true
      offline_packing_specs:
        _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs
        packed_sequence_size: 4096
        pad_seq_to_mult: 1
    train: {micro_batch_size: 1, global_batch_size: 8}
    model: {seq_length: 4096}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT101", "batch/offline-mbs-one"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or (run.mbs or 0) <= 1:
            return
        gbs = run.maybe(GBS)
        stays = f" (global_batch_size {gbs} stays: {gbs} packs a step)" if isinstance(gbs, int) else ""
        fix = Fix(f"micro_batch_size: 1{stays}", set_to(run, (MBS, 1)), safe=True)
        yield self.finding(
            run,
            REJECTED,
            MBS,
            f"offline packing needs micro_batch_size 1, found {run.mbs}",
            why="A pack already is a full row; a microbatch of several rows has no place for their boundaries.",
            related=(SIZE,),
            fix=fix,
        )


class OfflineSizePositive(RejectingRule):
    """The pack size must be positive.

    From 0.6 on a size of zero or less is refused. Up to 0.5 it means "not packed": nothing is packed and nothing is
    printed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_sequence_size: 0}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_sequence_size: 4096}}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`; `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    """

    code, slug = "BAT102", "batch/offline-size-positive"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release >= R06:
            if not run.has_specs:
                return
            size = run.pack_size
            if size is not None and size <= 0:
                early = run.dataset is DatasetKind.GPT_SFT
                yield self.finding(
                    run,
                    REJECTED,
                    SIZE,
                    f"packed_sequence_size must be positive, found {size}",
                    fix=Fix("packed_sequence_size: the dataset's seq_length", self._edit(run)),
                    station="batch/offline-size-positive@dataset" if early else "",
                )
            return
        if run.dataset is not DatasetKind.GPT_SFT or not run.has_specs:
            return
        size = run.pack_size
        if size is not None and size <= 0:
            yield self.finding(
                run,
                IGNORED.as_warning(),
                SIZE,
                f"packed_sequence_size {size} switches packing off in {run.release}: the run is not packed",
                fix=Fix("a positive packed_sequence_size, or packed_sequence_specs: null to say so"),
            )

    @staticmethod
    def _edit(run: Run) -> tuple[Edit, ...]:
        length = run.maybe("dataset.seq_length")
        return set_to(run, (SIZE, length)) if isinstance(length, int) and length > 0 else ()


class OfflineEnablePair(RejectingRule):
    """enable_offline_packing and offline_packing_specs go together.

    From 0.6 on the switch without specs is refused, and so are specs without the switch. To switch packing off, both
    must be overridden.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {enable_offline_packing: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {enable_offline_packing: false, offline_packing_specs: null}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT103", "batch/offline-enable-pair"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        switch, specs = OFFLINE_SWITCH, SPECS
        on, held = run.flag(switch), run.specs
        if on and held is None:
            if run.repaired:
                return  # run_recipe creates default specs
            target = "megatron.bridge.data.packing.config.PackedSequenceSpecs"
            size = run.maybe("dataset.seq_length")
            cleared = run.wrote(specs) and not run.wrote(switch)  # null over the recipe's specs: packing is not wanted
            yield self.finding(
                run,
                REJECTED,
                specs if cleared else switch,
                "offline packing is switched on without offline_packing_specs",
                related=(switch if cleared else specs,),
                fix=Fix("enable_offline_packing: false as well (packing off)", set_to(run, (switch, False)))
                if cleared
                else Fix(
                    "add offline_packing_specs with _target_, packed_sequence_size and pad_seq_to_mult",
                    set_to(
                        run,
                        (f"{specs}._target_", target),
                        (SIZE, size if isinstance(size, int) else 4096),
                        (f"{specs}.pad_seq_to_mult", self._multiple(run)),
                    )
                    if isinstance(size, int)
                    else (),
                ),
            )
        elif not on and held is not None:
            off_written = run.wrote(switch)
            yield self.finding(
                run,
                REJECTED,
                switch if off_written else specs,
                "offline_packing_specs are set while enable_offline_packing is not true",
                why="Specs alone do not switch packing on from 0.6 on; the start-up refuses the half-set pair.",
                related=(specs if off_written else switch,),
                fix=Fix(
                    "offline_packing_specs: null as well (packing off)" if off_written else "enable_offline_packing: true",
                    set_to(run, (specs, None) if off_written else (switch, True)),
                    safe=off_written,
                ),
            )

    @staticmethod
    def _multiple(run: Run) -> int:
        return run.mult.value


class OfflineInBatchExclusive(RejectingRule):
    """Offline packing and in-batch packing exclude each other.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true, dataloader_type: cyclic}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    dataset:
      enable_in_batch_packing: true
      enable_offline_packing: false
      offline_packing_specs: null
      dataloader_type: cyclic
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate` (0.7 also `GPTSFTDatasetConfig.validate`)
    """

    code, slug = "BAT104", "batch/offline-inbatch-exclusive"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.offline and run.in_batch:
            yield self.finding(
                run,
                REJECTED,
                "dataset.enable_in_batch_packing",
                "offline packing and in-batch packing are both switched on",
                why="Packs from disk would be concatenated once more; upstream allows one packing owner.",
                related=(OFFLINE_SWITCH,),
                fix=Fix(
                    "enable_in_batch_packing: false (keeps the offline packs)",
                    set_to(run, ("dataset.enable_in_batch_packing", False)),
                ),
            )


class EnergonMbsMatch(RejectingRule):
    """The Energon dataset's micro_batch_size must equal the training (and evaluation) one.

    The value has two owners. From 0.6 on a difference is refused; up to 0.5 the loader used the dataset's value and the
    microbatch calculator the training one.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, micro_batch_size: 2}
    train: {micro_batch_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, micro_batch_size: 2}
    train: {micro_batch_size: 2}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT108", "batch/energon-mbs-match"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.ENERGON:
            return
        key = LOADER_MBS
        loader = run.value(key)
        if run.release < R06:
            if loader is not None and loader != run.value(MBS):
                yield self.finding(
                    run,
                    SILENT,
                    key,
                    f"the Energon loader reads {loader} rows a microbatch, the schedule counts {run.value(MBS)}",
                    related=(MBS,),
                    fix=Fix(f"dataset.micro_batch_size: {run.value(MBS)}", set_to(run, (key, run.value(MBS)))),
                )
            return
        if loader != run.value(MBS):
            yield self.finding(
                run,
                REJECTED,
                key if run.wrote(key) or not run.wrote(MBS) else MBS,
                f"dataset.micro_batch_size {loader} differs from train.micro_batch_size {run.value(MBS)}",
                why="The Energon loader and the schedule each own the value; the start-up refuses a difference.",
                related=(MBS, key),
                fix=Fix(f"dataset.micro_batch_size: {run.value(MBS)}", set_to(run, (key, run.value(MBS))), safe=True),
            )
        if run.flag("dataset.do_validation"):
            eval_mbs = run.value(EVAL_MBS)
            eval_mbs = run.value(MBS) if eval_mbs is None else eval_mbs
            if loader != eval_mbs:
                yield self.finding(
                    run,
                    REJECTED,
                    EVAL_MBS if run.wrote(EVAL_MBS) else key,
                    f"dataset.micro_batch_size {loader} differs from eval_micro_batch_size {eval_mbs}",
                    related=(EVAL_MBS, key),
                    fix=Fix(f"eval_micro_batch_size: {loader}", set_to(run, (EVAL_MBS, loader)), safe=True),
                    station="batch/energon-mbs-match@eval",
                )


class MbsPositive(RejectingRule):
    """Micro batch sizes must be positive.

    Energon datasets refuse a value of zero or less (0.6 and later); zero elsewhere is a division by zero in the
    evaluation check (0.5 and later). Everything else fails when the microbatch calculator is built.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    - 0.5 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT113", "batch/mbs-positive"

    def stops_at(self, run: Run) -> str:
        energon = run.release >= R06 and run.dataset is DatasetKind.ENERGON
        if energon and isinstance(run.maybe(LOADER_MBS), str):
            return "batch/mbs-positive@energon"
        if not energon and isinstance(run.maybe(EVAL_MBS), (int, float)):
            return ""  # the evaluation has a size of its own, and nobody asks for the training's
        return self.slug if run.release >= R05 else ""

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release >= R06 and run.dataset is DatasetKind.ENERGON:
            size = run.number(LOADER_MBS)
            if size is not None and size <= 0:
                yield self._say(run, LOADER_MBS, size, True, "batch/mbs-positive@energon")
        for key in (MBS, EVAL_MBS):
            if key == EVAL_MBS and run.release < R05:
                continue
            size = run.number(key)
            if size is None or size > 0:
                continue
            shadowed = key == MBS and run.release >= R05 and run.value(EVAL_MBS) is not None
            yield self._say(run, key, size, size == 0 and run.release >= R05 and not shadowed, "gbs/eval-divisible@zero")

    def _say(self, run: Run, key: str, size: float, refused: bool, station: str) -> Finding:
        return self.finding(
            run,
            REJECTED if refused else CRASH_DATA,
            key,
            f"{key.rpartition('.')[2]} must be positive, found {size}",
            fix=Fix("a positive number: 1 when packed offline, 2 or more for in-batch packing"),
            station=station,
        )


RULES: tuple[Rule, ...] = (
    OfflineMbsOne(),
    OfflineSizePositive(),
    OfflineEnablePair(),
    OfflineInBatchExclusive(),
    EnergonMbsMatch(),
    MbsPositive(),
)
