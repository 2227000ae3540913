"""Micro batch sizes against the packing mode."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R05, R06, R07
from mbpack.rules.base import (
    CRASH_DATA,
    CRASH_STEP,
    IGNORED,
    REJECTED,
    SILENT,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
    words,
)

MBS, GBS = "train.micro_batch_size", "train.global_batch_size"
EVAL_MBS, EVAL_GBS = "validation.eval_micro_batch_size", "validation.eval_global_batch_size"
SIZE = "dataset.offline_packing_specs.packed_sequence_size"


class OfflineMbsOne(RejectingRule):
    """Offline packing needs micro_batch_size 1.

    An offline pack already is a full row of tokens, so a microbatch holds exactly one. The start-up refuses a larger
    micro batch; older cores used only the first row's boundaries without a word.

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
        mbs = int(run.mbs)
        gbs = run.maybe(GBS)
        fix = Fix("micro_batch_size: 1", set_to(run, (MBS, 1)), safe=True)
        if isinstance(gbs, int) and gbs >= mbs:
            fix = Fix(
                f"micro_batch_size: 1 and global_batch_size: {gbs // mbs} (same microbatches per step), or keep {gbs} for"
                " the same packs per step",
                set_to(run, (MBS, 1), (GBS, gbs // mbs)),
                safe=True,
            )
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

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`; `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    """

    code, slug = "BAT102", "batch/offline-size-positive"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release >= R06:
            if run.specs is None or run.specs_plain:
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
        if run.dataset is not DatasetKind.GPT_SFT or run.specs is None or run.specs_plain:
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
        switch, specs = "dataset.enable_offline_packing", "dataset.offline_packing_specs"
        on, held = run.flag(switch), run.specs
        if on and held is None:
            if run.repaired:
                return  # run_recipe creates default specs
            target = "megatron.bridge.data.packing.config.PackedSequenceSpecs"
            size = run.maybe("dataset.seq_length")
            yield self.finding(
                run,
                REJECTED,
                switch,
                "offline packing is switched on without offline_packing_specs",
                related=(specs,),
                fix=Fix(
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
                related=("dataset.enable_offline_packing",),
                fix=Fix(
                    "enable_in_batch_packing: false (keeps the offline packs)",
                    set_to(run, ("dataset.enable_in_batch_packing", False)),
                ),
            )


class InBatchMbsGtOne(RejectingRule):
    """In-batch packing needs micro_batch_size 2 or more.

    It concatenates the rows of one microbatch; with one row there is nothing to concatenate.

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT105", "batch/inbatch-mbs-gt-one"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.in_batch or run.value(MBS) != 1:
            return
        yield self.finding(
            run,
            REJECTED,
            MBS,
            "in-batch packing needs micro_batch_size 2 or more, found 1",
            why="It packs the rows of one microbatch into one row; with a single row nothing is packed.",
            related=("dataset.enable_in_batch_packing",),
            fix=self._fix(run),
        )

    @staticmethod
    def _fix(run: Run) -> Fix:
        gbs, title = run.maybe(GBS), "micro_batch_size: 2 (start small: the width of a row grows with it)"
        edits = [(MBS, 2)]
        dp = run.known_dp
        if isinstance(gbs, int) and dp is not None and gbs % (2 * dp):
            edits.append((GBS, formulas.round_up(gbs, 2 * dp)))
            title += f" and global_batch_size: {edits[-1][1]} (a multiple of MBS 2 x DP {dp})"
        if run.maybe("dataset.micro_batch_size") == 1:
            edits.append(("dataset.micro_batch_size", 2))
        return Fix(title, set_to(run, *edits))


class EnergonMbsMatch(RejectingRule):
    """The Energon dataset's micro_batch_size must equal the training (and evaluation) one.

    The value has two owners. From 0.6 on a difference is refused; up to 0.5 the loader used the dataset's value and the
    microbatch calculator the training one.

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT108", "batch/energon-mbs-match"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.ENERGON:
            return
        key = "dataset.micro_batch_size"
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


class InBatchDataloaderBatch(RejectingRule):
    """In-batch packing does not work with the batch dataloader.

    The `batch` loader hands the collate function a whole global batch per rank, which is then packed into one row that
    cannot be split into microbatches. GPT-SFT in-batch packing (0.7) refuses it; Direct-HF fails at the first step, and
    with a single microbatch ignores micro_batch_size.

    ## Upstream
    - 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    - 0.6, 0.7: `data/batch_utils.py`, `split_batch_into_microbatches`
    """

    code, slug = "BAT109", "batch/inbatch-dataloader-batch"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        key = "dataset.dataloader_type"
        if run.dataset not in (DatasetKind.DIRECT_HF, DatasetKind.GPT_SFT) or not run.in_batch:
            return
        if run.value(key) != "batch":
            return
        fix = Fix("dataloader_type: cyclic", set_to(run, (key, "cyclic")), safe=True)
        if run.dataset is DatasetKind.GPT_SFT:
            if run.release >= R07:
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    "GPT-SFT in-batch packing cannot use dataloader_type batch, which is the class default",
                    related=("dataset.enable_in_batch_packing",),
                    fix=fix,
                )
        elif not run.flag("dataset.defer_in_batch_packing_to_step"):
            many = run.microbatches.value > 1
            yield self.finding(
                run,
                CRASH_STEP if many else IGNORED.as_warning()._replace(when="always"),
                key,
                "dataloader_type batch packs a rank's whole global batch into one row, which cannot be split again"
                if many
                else "dataloader_type batch makes in-batch packing ignore micro_batch_size",
                related=("dataset.enable_in_batch_packing",),
                fix=fix,
            )


class GptSftInBatchExtra(RejectingRule):
    """What GPT-SFT in-batch packing (0.7) does not combine with.

    ## Upstream
    - 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    """

    code, slug = "BAT111", "batch/gptsft-inbatch-extra"
    releases = (R07, NIGHTLY)

    MISPLACED = ("enable_in_batch_packing", "in_batch_packing_pad_to_multiple_of")

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT:
            return
        kwargs = run.settings.mapping("dataset.dataset_kwargs")
        misplaced = [name for name in self.MISPLACED if name in kwargs]
        if misplaced:
            yield self.finding(
                run,
                REJECTED,
                f"dataset.dataset_kwargs.{misplaced[0]}",
                f"{words(misplaced)} inside dataset_kwargs: packing is set on the dataset itself",
                fix=Fix(f"dataset.{misplaced[0]} instead of dataset_kwargs.{misplaced[0]}"),
            )
        fusion = kwargs.get("get_attention_mask_from_fusion")
        if run.in_batch and fusion is not None and fusion.value is False:
            yield self.finding(
                run,
                REJECTED,
                "dataset.dataset_kwargs.get_attention_mask_from_fusion",
                "GPT-SFT in-batch packing needs the attention mask from the fused kernel",
                fix=Fix("remove get_attention_mask_from_fusion: false"),
            )
        if run.in_batch:
            loader = run.value("dataset.dataloader_type")
            if loader not in ("batch", "single", "cyclic"):
                yield self.finding(
                    run,
                    REJECTED,
                    "dataset.dataloader_type",
                    f"GPT-SFT in-batch packing needs dataloader_type single or cyclic, found {loader}",
                    fix=Fix("dataloader_type: cyclic", set_to(run, ("dataset.dataloader_type", "cyclic")), safe=True),
                )


class MbsPositive(RejectingRule):
    """Micro batch sizes must be positive.

    Energon datasets refuse a value of zero or less (0.6 and later); zero elsewhere is a division by zero in the
    evaluation check (0.5 and later). Everything else fails when the microbatch calculator is built.

    ## Upstream
    - 0.6, 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    - 0.5 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT113", "batch/mbs-positive"

    def stops_at(self, run: Run) -> str:
        return self.slug if run.release >= R05 else ""

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release >= R06 and run.dataset is DatasetKind.ENERGON:
            size = run.number("dataset.micro_batch_size")
            if size is not None and size <= 0:
                yield self._say(run, "dataset.micro_batch_size", size, True, "batch/mbs-positive@energon")
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
    InBatchMbsGtOne(),
    EnergonMbsMatch(),
    InBatchDataloaderBatch(),
    GptSftInBatchExtra(),
    MbsPositive(),
)
