"""Packing modes and their batch sizes, where the start-up looks away."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import IN_BATCH, count, cp_size, packs_in_batch
from mbpack.config.run import Run
from mbpack.config.settings import Origin, Setting
from mbpack.config.unknown_keys import unknown_keys
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import path_in
from mbpack.facts.releases import NIGHTLY, R03, R05, R06
from mbpack.rules.base import CRASH_EVAL, DERIVED, IGNORED, Edit, Finding, Fix, Outcome, Rule, set_to

EVAL_MBS = "validation.eval_micro_batch_size"


class EvalMbsInBatch(Rule):
    """In-batch packing with an evaluation micro batch of 1 packs nothing during evaluation.

    It works, but every evaluation row holds a single sample. Left unset, evaluation uses the training micro batch.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2}
    validation: {eval_micro_batch_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2}
    validation: {eval_micro_batch_size: 2}
    ```

    ## Upstream
    - 0.5 to 0.7: `training/config.py`, `ConfigContainer.validate` (defaults), `training/eval.py`
    """

    code, slug = "BAT106", "batch/eval-mbs-inbatch"
    releases = (R05, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if count(run, EVAL_MBS) != 1 or not packs_in_batch(run):
            return
        mbs = run.maybe("train.micro_batch_size")
        yield self.finding(
            run,
            Outcome("warning", "waste", "evaluation"),
            EVAL_MBS,
            "eval_micro_batch_size 1 leaves nothing to pack during evaluation",
            why="In-batch packing concatenates the rows of one microbatch, and here it has one.",
            related=(IN_BATCH,),
            fix=Fix("leave eval_micro_batch_size out, or use the training value", set_to(run, (EVAL_MBS, mbs)))
            if isinstance(mbs, int) and mbs > 1
            else Fix("leave eval_micro_batch_size out"),
        )


class OfflineEvalMbs(Rule):
    """Offline packs need micro_batch_size 1 during evaluation as well.

    Only the training value is checked. Training runs, and the first evaluation stops: the step takes the boundaries of
    one row, with context parallelism and without.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=4 launcher=script
    validation: {eval_micro_batch_size: 2, eval_global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=4 launcher=script
    validation: {eval_micro_batch_size: 1, eval_global_batch_size: 8}
    ```

    ## Upstream
    - 0.5: `training/gpt_step.py`, `_partition_packed_batch_for_cp`; `training/utils/packed_seq_utils.py`, `get_packed_seq_params`
    - 0.6, 0.7: `training/gpt_step.py`, `_cu_seqlens_for_cp_partition`; `training/utils/packed_seq_utils.py`
    """

    code, slug = "BAT107", "batch/offline-eval-mbs"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        size = count(run, EVAL_MBS)
        if size is None or size <= 1 or not run.offline or self._no_evaluation(run):
            return
        cp = cp_size(run)
        yield self.finding(
            run,
            CRASH_EVAL,
            EVAL_MBS,
            f"offline packs need eval_micro_batch_size 1, found {size}",
            why=f"Evaluation stops at its first batch: the split over CP {cp} takes one row's boundaries."
            if cp > 1
            else "Evaluation stops at its first batch: the step wants one longest sample, and a microbatch of several"
            " packs gives one a row.",
            related=("dataset.offline_packing_specs.packed_sequence_size", "model.context_parallel_size"),
            fix=Fix("eval_micro_batch_size: 1", set_to(run, (EVAL_MBS, 1)), safe=True),
        )

    @staticmethod
    def _no_evaluation(run: Run) -> bool:
        return run.maybe("dataset.do_validation") is False or run.maybe("validation.eval_iters") == 0


class GptSftInBatchUnsupported(Rule):
    """Text SFT datasets know in-batch packing from 0.7 on only.

    Before, the key does not exist on their class: an override with it is ignored and the run is not packed in the
    batch. A complete file with it is refused (`cfg/yaml-unknown-key`), and so is a KEY=VALUE argument without `+`
    (`cfg/cli-unknown-key`).

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=glm45_air_106b_sft_config gpus=32 launcher=script
    dataset: {enable_in_batch_packing: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    dataset: {enable_offline_packing: true}
    ```

    ## Upstream
    - 0.3 to 0.6: the fields of `FinetuningDatasetConfig` and `GPTSFTDatasetConfig`
    """

    code, slug = "BAT110", "batch/gptsft-inbatch-unsupported"
    releases = (R03, R06)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete:
            return
        key = path_in(run.release, IN_BATCH)
        written = self._written(run, key)
        if written is None or not written.value or written.origin is not Origin.FILE:
            return
        if run.dataset is not DatasetKind.GPT_SFT:
            return
        yield self.finding(
            run,
            IGNORED,
            IN_BATCH,
            f"{key} does not exist on text SFT datasets of {run.release}: it is ignored and nothing is packed in the batch",
            why="Only multimodal and, from 0.6 on, Direct-HF datasets pack in the batch; GPT-SFT does from 0.7 on.",
            setting=written,
            on_key=True,
            fix=Fix("offline packing, or a Direct-HF dataset (0.6), or 0.7", (Edit("delete", key),)),
        )

    @staticmethod
    def _written(run: Run, key: str) -> Setting | None:
        """The key as it is written: foreign to a known class, or on a class that only other keys give away."""
        foreign = next((found.setting for found in unknown_keys(run.settings) if found.path == key), None)
        return foreign or run.settings.written(IN_BATCH)


class EnergonPackLegacy(Rule):
    """Up to 0.5 in-batch packing of Energon data is a flag handed to the task encoder.

    It only sets the encoder's `pack_sequences`, if it has one; no length limit is applied. 0.3 has no such key.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, pack_sequences_in_batch: true, micro_batch_size: 2}
    train: {micro_batch_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, enable_in_batch_packing: true, micro_batch_size: 2}
    train: {micro_batch_size: 2}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.4, 0.5: `data/energon/energon_provider.py`, `EnergonProvider`
    """

    code, slug = "BAT112", "batch/energon-pack-legacy"
    releases = (R03, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.ENERGON or not run.wrote(IN_BATCH) or not run.in_batch:
            return
        if run.release is R03:
            return  # cfg/yaml-unknown-key
        yield self.finding(
            run,
            DERIVED,
            IN_BATCH,
            "packing of Energon data is left to the task encoder: the flag sets its pack_sequences, if it has one",
            why="No length limit is applied to the packed rows; native packing starts with 0.7.",
        )


RULES: tuple[Rule, ...] = (
    EvalMbsInBatch(),
    OfflineEvalMbs(),
    GptSftInBatchUnsupported(),
    EnergonPackLegacy(),
)
