"""In-batch packing: what a micro batch must be, and what it does not combine with."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R06, R07
from mbpack.rules.base import (
    CRASH_DATA,
    CRASH_STEP,
    IGNORED,
    REJECTED,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    in_yaml,
    set_to,
    words,
)
from mbpack.rules.packing.batch import GBS, MBS

#: What the builder of the data iterators takes.
LOADERS = ("single", "cyclic", "batch", "external")


class InBatchMbsGtOne(RejectingRule):
    """In-batch packing needs micro_batch_size 2 or more.

    It concatenates the rows of one microbatch; with one row there is nothing to concatenate.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2}
    ```

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


class InBatchDataloaderBatch(RejectingRule):
    """In-batch packing does not work with the batch dataloader.

    The `batch` loader hands the collate function a whole global batch per rank, which is then packed into one row that
    cannot be split into microbatches. GPT-SFT in-batch packing (0.7) refuses it; Direct-HF fails at the first step, and
    with a single microbatch ignores micro_batch_size.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true, dataloader_type: batch}
    train: {micro_batch_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true, dataloader_type: cyclic}
    train: {micro_batch_size: 2}
    ```

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

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    dataset: {dataset_kwargs: {enable_in_batch_packing: true}}
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
    - 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`; `data/loaders.py`, `build_train_valid_test_data_iterators`
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
                fix=Fix(
                    f"dataset.{misplaced[0]} instead of dataset_kwargs.{misplaced[0]}",
                    tuple(Edit("rename", f"dataset.dataset_kwargs.{name}", to=f"dataset.{name}") for name in misplaced),
                ),
            )
        fusion = kwargs.get("get_attention_mask_from_fusion")
        if run.in_batch and fusion is not None and fusion.value is False:
            yield self.finding(
                run,
                REJECTED,
                "dataset.dataset_kwargs.get_attention_mask_from_fusion",
                "GPT-SFT in-batch packing needs the attention mask from the fused kernel",
                fix=Fix(
                    "remove get_attention_mask_from_fusion: false",
                    (Edit("delete", "dataset.dataset_kwargs.get_attention_mask_from_fusion"),),
                ),
            )
        if run.in_batch:
            loader = run.value("dataset.dataloader_type")
            if loader not in LOADERS:
                yield self.finding(
                    run,
                    CRASH_DATA,
                    "dataset.dataloader_type",
                    f"dataloader_type {in_yaml(loader)} is none of {words(LOADERS, 'and')}: the data are not built",
                    fix=Fix("dataloader_type: cyclic", set_to(run, ("dataset.dataloader_type", "cyclic"))),
                )


RULES: tuple[Rule, ...] = (InBatchMbsGtOne(), InBatchDataloaderBatch(), GptSftInBatchExtra())
