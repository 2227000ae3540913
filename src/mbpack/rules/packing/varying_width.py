"""Rows whose width varies: pipeline stages, expert dispatch and memory."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import (
    DATA_SEQ,
    IN_BATCH,
    KWARGS_WIDTH,
    MODEL_SEQ,
    count,
    fixed_width,
    in_batch_fixed,
    packs_in_batch,
)
from mbpack.config.run import COLLATING, Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R03, R06
from mbpack.facts.widths import MEASURED_WIDTH_LOADER
from mbpack.rules.base import CRASH_STEP, DERIVED, NOTE, WASTE, Finding, Fix, Outcome, Rule, set_to
from mbpack.rules.packing.alignment import SP, TP
from mbpack.rules.packing.width import FIXED

PP, EP = "model.pipeline_model_parallel_size", "model.expert_model_parallel_size"
LOADER = "dataset.dataloader_type"


class PadToMaxLengthAuto(Rule):
    """With pipeline or expert parallelism the start-up switches pad_to_max_length on.

    It does so for Direct-HF, Energon and mock-VLM datasets. GPT-SFT keeps the switch in `dataset_kwargs`, where nothing
    changes it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    model: {pipeline_model_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    model: {pipeline_model_parallel_size: 1}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "ALN113", "align/pad-to-max-length-auto"
    releases = (R06, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        key = "dataset.pad_to_max_length"
        if run.dataset not in COLLATING or run.flag(key):
            return
        if run.pp <= 1 and run.ep <= 1:
            return
        ranks = f"PP {run.pp}" if run.pp > 1 else f"EP {run.ep}"
        yield self.finding(
            run,
            DERIVED,
            key if run.wrote(key) else PP if run.pp > 1 else EP,
            f"the start-up sets pad_to_max_length to true for {ranks}",
            why="Stages and experts exchange rows of one width.",
            related=(PP, EP),
        )


class OfflineDynamicWidthPp(Rule):
    """Pipeline stages need the width of the rows they exchange.

    With the batch dataloader, the GPT-SFT default, the training loop measures the width of each step's rows and every
    stage uses it. With another dataloader the buffers keep `model.seq_length` while dynamic rows are narrower: the
    stages likely disagree and hang or fail at the first step.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {pipeline_model_parallel_size: 2}
    dataset: {dataloader_type: cyclic, dataset_kwargs: {pad_to_max_length: false}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {pipeline_model_parallel_size: 2}
    dataset: {dataloader_type: cyclic, dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - 0.3 to 0.5: `training/train.py`, `train_step`; `data/finetuning.py`, `prepare_finetuning_batch`
    - 0.6, 0.7: `training/train.py`, `train_step`; `data/batch_utils.py`, `prepare_finetuning_batch`
    """

    code, slug = "ALN114", "align/offline-dynamic-width-pp"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.pp <= 1 or not run.offline:
            return
        loader = run.value(LOADER)
        if loader == MEASURED_WIDTH_LOADER or fixed_width(run) or run.flag("model.variable_seq_lengths"):
            return
        shipped = not (run.wrote(KWARGS_WIDTH) or run.wrote(PP) or run.wrote(LOADER)) and not run.complete
        yield self.finding(
            run,
            CRASH_STEP.as_warning() if shipped else CRASH_STEP,
            KWARGS_WIDTH if run.wrote(KWARGS_WIDTH) else PP,
            f"rows of dynamic width likely do not fit the pipeline's buffers (PP {run.pp}, dataloader_type {loader})",
            why=f"Only the batch dataloader tells the stages the real width; with {loader} they expect model.seq_length.",
            related=(PP, LOADER, MODEL_SEQ),
            fix=Fix(f"{FIXED}, or dataloader_type: batch", set_to(run, (KWARGS_WIDTH, True))),
        )


class OfflineDynamicWidthEp(Rule):
    """HybridEP dispatch over rows of different width.

    The flex dispatcher with HybridEP expects the same number of tokens on every rank; alltoall and DeepEP do not mind.
    Up to 0.5 ranks with other widths hang or read out of bounds; from 0.6 on eager runs are padded, while CUDA graphs
    need equal widths. Inferred from the code, so likely.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 gpus=8 launcher=script
    model:
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
      expert_model_parallel_size: 8
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: hybridep
    dataset:
      packed_sequence_specs:
        _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs
        packed_sequence_size: 4096
      dataset_kwargs: {pad_to_max_length: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 gpus=8 launcher=script
    model:
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
      expert_model_parallel_size: 8
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: hybridep
    dataset:
      packed_sequence_specs:
        _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs
        packed_sequence_size: 4096
      dataset_kwargs: {pad_to_max_length: true}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/flex_dispatcher_backend.py`
    - 0.6, 0.7: `training/config.py`, `_enable_safe_hybridep_dispatch`
    """

    code, slug = "ALN115", "align/offline-dynamic-width-ep"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.ep <= 1 or not run.offline:
            return
        if run.value("model.moe_token_dispatcher_type") != "flex" or fixed_width(run):
            return
        if run.value("model.moe_flex_dispatcher_backend") != "hybridep":
            return
        yield self.finding(
            run,
            self._outcome(run),
            "model.moe_flex_dispatcher_backend",
            "HybridEP likely meets rows of different width on different ranks",
            why="It dispatches the same number of tokens on every rank; from 0.6 on eager runs are padded to it."
            if run.release >= R06
            else "It dispatches the same number of tokens on every rank; up to 0.5 nothing pads them: hangs or bad reads.",
            related=(EP, "model.moe_token_dispatcher_type"),
            fix=Fix(FIXED, set_to(run, (KWARGS_WIDTH, True))),
        )

    @staticmethod
    def _outcome(run: Run) -> Outcome:
        """An error only for what the user asks for: a recipe that ships like this was likely run by its authors."""
        asked = (KWARGS_WIDTH, EP, "model.moe_token_dispatcher_type", "model.moe_flex_dispatcher_backend")
        if run.release >= R06 and not run.graphs.enabled:
            return WASTE.as_info()
        wanted = run.complete or any(run.wrote(key) for key in asked)
        return CRASH_STEP if run.release < R06 and wanted else CRASH_STEP.as_warning()


class InBatchTotalLength(Rule):
    """seq_length limits the rows of an in-batch pack, not their sum.

    A microbatch becomes one row of up to micro_batch_size x seq_length tokens. Memory must suffice for the longest such
    row, which comes at a step that depends on the data.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: false}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Upstream
    - 0.3 to 0.5: `training/vlm_step.py`, `pack_batch_sequences`
    - 0.6, 0.7: `data/packing/in_batch.py`, `build_mcore_thd_sequence_batch_from_rows`
    """

    code, slug = "ALN117", "align/inbatch-total-length-unbounded"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not packs_in_batch(run) or in_batch_fixed(run):
            return
        mbs, length = count(run, "train.micro_batch_size"), count(run, DATA_SEQ)
        if mbs is None or length is None or mbs <= 1 or length <= 0:
            return
        yield self.finding(
            run,
            NOTE,
            IN_BATCH,
            f"an in-batch row may hold up to {mbs * length:,} tokens = micro_batch_size {mbs} x seq_length {length:,}",
            why="seq_length limits each sample, not their sum; memory must suffice for the longest microbatch.",
            related=("train.micro_batch_size", DATA_SEQ),
            fix=Fix("start with micro_batch_size 2 and watch the peak memory of the longest batches"),
        )


class InBatch03NoSp(Rule):
    """0.3 packs in the batch without regard to sequence parallelism.

    The rows are padded to 2*CP only, so under sequence parallel their sum need not divide by CP*TP. Padding is recognised
    by token id 0, which some vocabularies use as a real token.

    ## Bad
    ```yaml
    # mbpack: bridge=0.3 recipe=qwen25_vl_7b_finetune_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, sequence_parallel: true}
    dataset: {pack_sequences_in_batch: true}
    train: {micro_batch_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.3 recipe=qwen25_vl_7b_finetune_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, sequence_parallel: false, pipeline_model_parallel_size: 1}
    dataset: {pack_sequences_in_batch: true}
    train: {micro_batch_size: 2}
    ```

    ## Upstream
    - 0.3: `training/vlm_step.py`, `pack_batch_sequences`
    """

    code, slug = "ALN118", "align/inbatch-03-no-sp"
    releases = (R03, R03)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.in_batch or self._foreign(run):
            return
        if run.pp > 1:
            return  # pp/inbatch-variable-seq
        if run.sp:
            yield self.finding(
                run,
                CRASH_STEP,
                SP,
                f"0.3 pads in-batch rows for context parallelism only; sequence parallel over TP {run.tp} needs more",
                why="The packed total need not divide by CP*TP, which stops the step where the row is scattered.",
                related=(TP, IN_BATCH),
                fix=Fix("sequence_parallel: false, or Megatron-Bridge 0.4", set_to(run, (SP, False))),
            )

    @staticmethod
    def _foreign(run: Run) -> bool:
        """Whether the dataset is known to be of a class without the switch."""
        cls = run.settings.class_at("dataset")
        return cls is not None and run.dataset is DatasetKind.GPT_SFT


RULES: tuple[Rule, ...] = (
    PadToMaxLengthAuto(),
    OfflineDynamicWidthPp(),
    OfflineDynamicWidthEp(),
    InBatchTotalLength(),
    InBatch03NoSp(),
)
