"""What pipeline and context parallelism do to the boundaries of packed samples, release by release."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import KWARGS_WIDTH
from mbpack.config.run import Run
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06
from mbpack.rules.base import CRASH_STEP, DERIVED, REJECTED, SILENT, Finding, Fix, RejectingRule, Rule, set_to
from mbpack.rules.lookup import step_of
from mbpack.rules.packs.lookup import PAD_CU

PP, CP = "model.pipeline_model_parallel_size", "model.context_parallel_size"
TP, LOADER, COLLATES_TOGETHER = "model.tensor_model_parallel_size", "dataset.dataloader_type", "batch"
IN_BATCH, VARIABLE, MODEL_SEQ = "dataset.enable_in_batch_packing", "model.variable_seq_lengths", "model.seq_length"


class MiddleStageLostMetadata(Rule):
    """Before 0.5 the middle pipeline stages of a packed run attend across samples.

    Stages that are neither first nor last fetch no batch in 0.3 and 0.4, so they know no sample boundaries and use
    causal attention over the whole pack. The loss looks too good (reported: 0.035 instead of 0.57), benchmarks drop
    by 10 to 20 points, and nothing is printed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 4}
    train: {global_batch_size: 32}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 2}
    train: {global_batch_size: 32}
    ```

    ## Upstream
    - 0.3, 0.4: `training/gpt_step.py`, `get_batch`; mended in 0.5 by `_middle_pp_stage_needs_batch`
    """

    code, slug = "PPL101", "pp/middle-stage-lost-metadata"
    releases = (R03, R04)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.pp < 3 or not run.offline:
            return
        yield self.finding(
            run,
            SILENT,
            PP,
            f"with pipeline parallel {run.pp} the {run.pp - 2} middle stages of a packed run attend across samples",
            why=f"In {run.release} a stage between the first and the last fetches no batch and knows no sample "
            "boundaries; the loss looks too good and the model is worse.",
            related=(f"{SPECS}.packed_sequence_size",),
            fix=Fix("pipeline parallel 2 or less, or Megatron-Bridge 0.5 or later"),
        )


class CpSentinel(Rule):
    """Before 0.5.1 the context parallel split of packed rows uses untrimmed boundary arrays.

    The batch dataloader collates all rows of a rank's step together, and the boundaries of a row with fewer samples are
    filled up with -1 entries. One of them at the end is harmless, since the search for a token's sample never reads the
    last entry. From the second on the search goes astray: tokens go to no rank or to the wrong one. A rank that has one
    row a step, or a dataloader that collates rows one by one, never sees more than one; nor do the equally long
    arrays of `pad_cu_seqlens`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5.0 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {packed_sequence_specs: {pad_seq_to_mult: 4}}
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5.0 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {dataloader_type: cyclic, packed_sequence_specs: {pad_seq_to_mult: 4}}
    train: {global_batch_size: 8}
    ```

    ## Upstream
    - 0.3, 0.4, 0.5.0: `training/gpt_step.py`, `_partition_packed_batch_for_cp`; Transformer Engine
      `thd_partition_indices_kernel`
    - 0.5.1: mended by `_trim_padded_cu_seqlens_for_cp`
    """

    code, slug = "PPL102", "pp/cp-sentinel"
    releases = (R03, R05)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release >= R05 and run.patch != "0.5.0":
            return
        if run.cp <= 1 or not run.offline or run.maybe(LOADER, COLLATES_TOGETHER) != COLLATES_TOGETHER:
            return
        rows = rows_a_rank(run)
        if rows <= 1 or run.maybe(PAD_CU, False):
            return
        yield self.finding(
            run,
            SILENT,
            CP,
            f"{run.patch} splits packed rows over context parallel {run.cp} by boundaries with -1 entries",
            why=f"The batch dataloader collates the {rows} rows of a rank's step together; a row with fewer samples than"
            " another ends in several -1 entries, and the split then gives tokens to no rank.",
            related=(f"{SPECS}.packed_sequence_size", LOADER, "train.global_batch_size"),
            fix=self._fix(run),
        )

    @staticmethod
    def _fix(run: Run) -> Fix:
        pairs: list[tuple[str, object]] = [(LOADER, "cyclic")]
        if run.pp > 1:
            pairs.append((KWARGS_WIDTH, True))
        width = " and dataset_kwargs.pad_to_max_length: true" if run.pp > 1 else ""
        dp = run.known_dp
        one_row = f"global_batch_size {dp} (one row a rank)" if dp else "one row a rank"
        return Fix(f"dataloader_type: cyclic{width}, or {one_row}, or Megatron-Bridge 0.5.1", set_to(run, *pairs))


def rows_a_rank(run: Run) -> int:
    """Rows that a rank works on in a step, at least. Raises Unknown where it may or may not be one."""
    known = 1
    for key in (TP, PP, CP):
        size = run.maybe(key, 1)
        known *= size if isinstance(size, int) and size > 0 else 1
    gbs, gpus = run.gbs, run.gpus
    if isinstance(gbs, int) and gbs > gpus // known:
        return gbs // max(gpus // known, 1)  # more rows than ranks, whatever the sizes that nobody gave
    return int(gbs // run.dp) if gbs else 1


class InBatchVariableSeq(Rule):
    """In-batch packing under pipeline parallelism needs variable sequence lengths between stages.

    0.3 does not pack in the batch there at all: every stage packs its batch, labels included, and the stages before the
    last have none. From 0.4 on the start-up switches variable lengths on, after Megatron-Core has validated the model;
    0.6.0 misses models with a nested `transformer`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.3 gpus=8 launcher=script
    dataset: {pack_sequences_in_batch: true}
    model: {pipeline_model_parallel_size: 2}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.3 gpus=8 launcher=script
    dataset: {pack_sequences_in_batch: true}
    model: {pipeline_model_parallel_size: 1}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Upstream
    - 0.3: `training/vlm_step.py`, `pack_batch_sequences`; nothing sets `variable_seq_lengths`
    - 0.4 to 0.7: `models/transformer_config.py`, `TransformerConfig.finalize`; 0.6.0 `training/config.py` misses
      `model.transformer`
    """

    code, slug = "PPL103", "pp/inbatch-variable-seq"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.pp <= 1 or not run.in_batch:
            return
        if run.release is R03:
            yield self.finding(
                run,
                CRASH_STEP,
                PP,
                f"0.3 cannot pack in the batch with PP {run.pp}: the stages before the last have no labels",
                why="Every stage packs its batch, labels included, but only the last one is given them; nor do the stages"
                " exchange the lengths of rows.",
                related=(IN_BATCH,),
                fix=Fix("pipeline_model_parallel_size: 1, or Megatron-Bridge 0.4 or later"),
            )
        elif run.patch == "0.6.0" and run.nested_model:
            if not run.flag(VARIABLE):
                yield self.finding(
                    run,
                    CRASH_STEP,
                    PP,
                    f"0.6.0 does not exchange row lengths between the {run.pp} stages of a nested model",
                    why="It sets variable_seq_lengths on the model instead of model.transformer.",
                    related=(IN_BATCH,),
                    fix=Fix("model.transformer.variable_seq_lengths: true, or Megatron-Bridge 0.6.2"),
                )
        elif not run.maybe(VARIABLE, False):
            yield self.finding(
                run,
                DERIVED,
                VARIABLE,
                f"in-batch packing with PP {run.pp} switches variable_seq_lengths on",
                why="It happens after Megatron-Core's own check, which would refuse it with the allgather dispatcher.",
                related=(PP, IN_BATCH),
            )


class LlavaPacked(Rule):
    """llava_step packs only without pipeline and context parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script step=llava_step
    dataset: {enable_in_batch_packing: true}
    model: {pipeline_model_parallel_size: 2, context_parallel_size: 1}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script step=llava_step
    dataset: {enable_in_batch_packing: true}
    model: {pipeline_model_parallel_size: 1, context_parallel_size: 1}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Upstream
    - 0.6, 0.7: `training/llava_step.py`, `_validate_packed_parallelism`
    """

    code, slug = "PPL106", "pp/llava-packed"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.in_batch or (run.pp <= 1 and run.cp <= 1):
            return
        if step_of(run) == "llava_step":
            yield self.finding(
                run,
                CRASH_STEP,
                PP if run.pp > 1 else CP,
                f"llava_step refuses packed rows with PP {run.pp} and CP {run.cp}; both must be 1",
                related=(PP, CP),
                fix=Fix("pipeline and context parallel 1", set_to(run, (PP, 1), (CP, 1))),
            )


class DeferEmbeddingWgrad(RejectingRule):
    """Deferring the embedding's weight gradients needs pipeline parallelism.

    `defer_embedding_wgrad_compute` moves those products into the flush of the pipeline; without a pipeline there is no
    flush, and the start-up refuses it. It also needs `gradient_accumulation_fusion` and a `wgrad_deferral_limit` of zero
    (no limit) or more, which the `comm_overlap` section does not supply by itself.

    ## Bad
    ```yaml
    # mbpack: bridge=0.3 recipe=gpt3_175b_pretrain_config gpus=512 launcher=script
    model: {pipeline_model_parallel_size: 1, virtual_pipeline_model_parallel_size: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.3 recipe=gpt3_175b_pretrain_config gpus=512 launcher=script
    model: {pipeline_model_parallel_size: 8}
    ```

    ## Upstream
    - all releases: Megatron-Core `model_parallel_config.py`, `ModelParallelConfig.__post_init__`
    """

    code, slug = "PPL108", "pp/defer-embedding-wgrad"

    def check(self, run: Run) -> Iterator[Finding]:
        overlap = run.value("comm_overlap") is not None  # the section writes its own values over the model's
        owner = "comm_overlap" if overlap else "model"
        key = f"{owner}.defer_embedding_wgrad_compute"
        if not run.flag(key):
            return
        if run.pp == 1:
            yield self._refuse(run, key, "needs pipeline parallelism, found pipeline parallel 1", PP)
        fusion = "model.gradient_accumulation_fusion"
        if run.wrote(fusion) and not run.flag(fusion):
            yield self._refuse(run, key, "needs gradient_accumulation_fusion, which is off", fusion)
        limit = run.number(f"{owner}.wgrad_deferral_limit")
        if limit is None and overlap:
            limit = -1
        if limit is not None and limit < 0:
            yield self._refuse(
                run, key, f"needs a wgrad_deferral_limit of 0 or more, found {limit}", f"{owner}.wgrad_deferral_limit"
            )

    def _refuse(self, run: Run, key: str, message: str, related: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key,
            f"defer_embedding_wgrad_compute {message}",
            why="The deferred products run while the pipeline is flushed.",
            related=(related,),
            fix=Fix("defer_embedding_wgrad_compute: false", set_to(run, (key, False)), safe=True),
        )


RULES: tuple[Rule, ...] = (
    MiddleStageLostMetadata(),
    CpSentinel(),
    InBatchVariableSeq(),
    LlavaPacked(),
    DeferEmbeddingWgrad(),
)
