"""Step functions: who packs, what each step accepts, and what it cuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config.in_effect import DATA_SEQ
from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts import hard_blocks
from mbpack.facts.modes import OFFLINE
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07
from mbpack.rules.base import CRASH_STEP, NOTE, SILENT, Finding, Fix, Outcome, Rule, is_number, set_to
from mbpack.rules.lookup import VLM_KINDS, is_family, packing_key, row_width, splits_contiguously, step_of

DEFER, IN_BATCH = "dataset.defer_in_batch_packing_to_step", "dataset.enable_in_batch_packing"
PP, EP, CP = (f"model.{name}_parallel_size" for name in ("pipeline_model", "expert_model", "context"))
MBS, MODEL_SEQ, PARTITION = "train.micro_batch_size", "model.seq_length", "model.cp_partition_mode"


class VlmDefer(Rule):
    """vlm_step and nemotron_omni_step need batches that the collate function has packed.

    With `defer_in_batch_packing_to_step: true` the collate function returns single rows, and these steps refuse them at
    the first step.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script step=vlm_step
    dataset: {enable_in_batch_packing: true, defer_in_batch_packing_to_step: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script step=vlm_step
    dataset: {enable_in_batch_packing: true, defer_in_batch_packing_to_step: false}
    ```

    ## Upstream
    - 0.6, 0.7: `training/vlm_step.py` and `training/nemotron_omni_step.py`, `forward_step`
    """

    code, slug = "STP101", "step/vlm-defer"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.in_batch or not run.flag(DEFER):
            return
        step = step_of(run)
        if step in ("vlm_step", "nemotron_omni_step"):
            yield self.finding(
                run,
                CRASH_STEP,
                DEFER,
                f"{step} needs rows packed by the collate function, but packing is deferred to the step",
                why="This step has no packing of its own and stops at the first batch.",
                related=(IN_BATCH,),
                fix=Fix("defer_in_batch_packing_to_step: false", set_to(run, (DEFER, False)), safe=True),
            )


class Qwen3VlOwned(Rule):
    """qwen3_vl_step packs by itself and refuses rows that are packed already.

    In-batch packing with it needs `defer_in_batch_packing_to_step: true`; native Energon packing needs `vlm_step`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=script step=qwen3_vl_step
    dataset: {enable_in_batch_packing: true, defer_in_batch_packing_to_step: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=script step=qwen3_vl_step
    dataset: {enable_in_batch_packing: true, defer_in_batch_packing_to_step: true}
    ```

    ## Upstream
    - 0.6, 0.7: `models/qwen_vl/qwen3_vl_step.py`, `get_batch_from_iterator`
    """

    code, slug = "STP102", "step/qwen3vl-owned"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        native = run.release >= R07 and run.energon_packing
        if not native and (not run.in_batch or run.flag(DEFER)):
            return
        if step_of(run) != "qwen3_vl_step":
            return
        if native:
            yield self.finding(
                run,
                CRASH_STEP,
                "dataset.packing_buffer_size",
                "qwen3_vl_step does not take rows that the Energon loader has packed",
                fix=Fix("--step_func vlm_step: it takes packed rows"),
            )
            return
        yield self.finding(
            run,
            CRASH_STEP,
            DEFER if run.wrote(DEFER) else IN_BATCH,
            "qwen3_vl_step packs by itself, but the collate function packs first",
            why="The step meets sample boundaries in the first batch and refuses it.",
            related=(IN_BATCH, DEFER),
            fix=Fix("defer_in_batch_packing_to_step: true", set_to(run, (DEFER, True)), safe=True),
        )


class ThdMbs(Rule):
    """The context parallel split takes one packed row per microbatch.

    Behind the start-up check of `batch/offline-mbs-one` a second check waits: with CP above 1 the step refuses sample
    boundaries with a batch dimension other than 1.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    train: {micro_batch_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    train: {micro_batch_size: 1}
    ```

    ## Upstream
    - 0.3 to 0.5: `training/gpt_step.py`, `_partition_packed_batch_for_cp`
    - 0.6, 0.7: `training/gpt_step.py`, `_cu_seqlens_for_cp_partition`
    """

    code, slug = "STP103", "step/thd-mbs"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or run.cp <= 1:
            return
        if is_number(run.mbs) and run.mbs > 1:
            yield self.finding(
                run,
                Outcome("info", "crash", "first-step"),
                MBS,
                f"behind the start-up check, the context parallel split of packed rows refuses micro_batch_size {run.mbs} too",
                related=(CP,),
                fix=Fix("micro_batch_size: 1", set_to(run, (MBS, 1)), safe=True),
            )


class ArgminCpu(Rule):
    """A custom packed dataset must leave cu_seqlens_argmin on the CPU.

    With CP above 1 the step trims boundaries by this number, and refuses to wait for the GPU to learn it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {_target_: nemo.collections.packed.PackedDataset, enable_offline_packing: true}
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {_target_: nemo.collections.packed.PackedDataset, enable_offline_packing: true}
    model: {context_parallel_size: 1}
    ```

    ## Upstream
    - 0.5.1 to 0.7: `training/gpt_step.py`, `_trim_padded_cu_seqlens_for_cp`
    """

    code, slug = "STP104", "step/argmin-cpu"
    releases = (R05, R07)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        target = run.settings.target_at("dataset")
        if run.patch == "0.5.0" or target is None or run.settings.schema.class_of(str(target.value)) is not None:
            return
        if run.cp > 1 and run.packed:
            yield self.finding(
                run,
                Outcome("info", "crash", "first-step"),
                "dataset._target_",
                "a custom packed dataset must keep cu_seqlens_argmin on the CPU when context parallel is above 1",
                related=(CP,),
                setting=target,
            )


class ThdPartitionMcore(Rule):
    """The context parallel split of packed rows needs the helper of the pinned libraries.

    From 0.6 on it comes from Megatron-Core 0.18 or later, before that from Transformer Engine 1.10 or later. A
    configuration does not tell which are installed.

    ## Upstream
    - 0.6, 0.7: `training/utils/packed_seq_utils.py`, `get_thd_cp_partition_indices`
    - 0.3 to 0.5: `training/gpt_step.py`, `_partition_packed_batch_for_cp`
    """

    code, slug = "STP105", "step/thd-partition-mcore"

    def check(self, run: Run) -> Iterable[Finding]:
        if run.offline and run.cp > 1:
            library = "Megatron-Core 0.18" if run.release >= R06 else "Transformer Engine 1.10"
            raise Unknown("libraries", ("libraries",), f"the context parallel split of packed rows needs {library} or later")
        return ()


class Qwen3VlTruncate(Rule):
    """Long rows of Qwen3-VL are cut, image tokens included.

    In 0.4 and 0.5 the step does it under pipeline or expert parallelism, which need one width for all ranks: a row longer
    than `model.seq_length` loses its last tokens without a word. From 0.6 on the collate function cuts every row at
    `dataset.seq_length`, whatever the topology, and stops where a row loses all its answers.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=qwen3_vl_30b_a3b_sft_config gpus=8 launcher=script step=qwen3_vl_step
    model: {expert_model_parallel_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=script step=qwen3_vl_step
    model: {pipeline_model_parallel_size: 1}
    ```

    ## Upstream
    - 0.4, 0.5: `models/qwen_vl/qwen3_vl_step.py`, `forward_step`
    - 0.6, 0.7: `data/collators`, `pad_or_truncate_sequence_batch`
    """

    code, slug = "STP106", "step/qwen3vl-truncate"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        cuts_here = run.release < R06
        if cuts_here and run.pp <= 1 and run.ep <= 1:
            return
        if run.dataset not in VLM_KINDS or not is_family(run, hard_blocks.QWEN3_VL) or step_of(run) != "qwen3_vl_step":
            return
        if not cuts_here:
            yield self._collated(run)
            return
        cause = f"pipeline parallel {run.pp}" if run.pp > 1 else f"expert parallel {run.ep}"
        length = run.maybe(MODEL_SEQ)
        yield self.finding(
            run,
            SILENT.as_warning(),
            MODEL_SEQ,
            f"with {cause} qwen3_vl_step cuts rows at model.seq_length{f' {length}' if length else ''} before packing",
            why="Tokens behind it are dropped without a message, image tokens included.",
            related=(PP if run.pp > 1 else EP,),
            fix=Fix("a model.seq_length (and dataset.seq_length) above the longest row, or fewer pixels"),
        )

    def _collated(self, run: Run) -> Finding:
        length = run.maybe(DATA_SEQ)
        return self.finding(
            run,
            NOTE,
            DATA_SEQ,
            f"rows are cut at dataset.seq_length{f' {length}' if length else ''} when they are collated",
            why="The tail goes, image tokens included; a row that loses all its answers stops the run.",
            related=(MODEL_SEQ,),
            fix=Fix("a dataset.seq_length (and model.seq_length) above the longest row, or fewer pixels"),
        )


class DsV4Contiguous(Rule):
    """A contiguous context parallel split needs deepseek_v4_step and a width that divides by CP.

    Any other step splits rows into 2 x CP pieces, while the model's compressor expects each rank to hold consecutive
    tokens.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=64 launcher=script step=gpt_step
    dataset:
      enable_offline_packing: true
      offline_packing_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 4}
    model: {context_parallel_size: 2, cp_partition_mode: contiguous}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=deepseek_v4_flash_sft_openmath_thinking_packed_config
    # mbpack: gpus=64 launcher=script step=dsv4_step
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.6, 0.7: `models/deepseek/deepseek_v4_step.py`, `get_batch` and `_partition_packed_batch_contiguous`
    """

    code, slug = "STP107", "step/dsv4-contiguous"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.cp <= 1 or not splits_contiguously(run) or not run.packed:
            return
        width = row_width(run)
        if width is not None and width % run.cp:
            key = "dataset.offline_packing_specs.packed_sequence_size" if run.mode is OFFLINE else "dataset.seq_length"
            yield self.finding(
                run,
                CRASH_STEP,
                key,
                f"a contiguous split needs a width that divides by CP {run.cp}, found {width}",
                related=(CP, PARTITION),
                fix=Fix(f"{key.rpartition('.')[2]}: {width // run.cp * run.cp or run.cp}"),
            )
        step = step_of(run)
        if step != hard_blocks.DSV4_STEP:
            yield self.finding(
                run,
                CRASH_STEP,
                PARTITION,
                f"cp_partition_mode contiguous needs {hard_blocks.DSV4_STEP}, the run uses {step}",
                related=(CP,),
                fix=Fix("--step_func dsv4_step"),
            )


class FlopsInBatch(Rule):
    """Up to 0.5 the throughput of packed runs is estimated as if every row were one sample.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Upstream
    - 0.6, 0.7: `training/utils/flop_utils.py`, `accumulate_flops_metadata` sums over the samples of a row
    """

    code, slug = "FLP101", "flops/inbatch"
    notes_only = True
    routine = True
    releases = (R03, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.packed:
            yield self.finding(
                run,
                NOTE,
                packing_key(run),
                f"{run.release} estimates the throughput of packed rows from their width, not from the samples in them",
                why="Logged TFLOP/s of packed runs cannot be compared with unpacked ones before 0.6.",
            )


RULES: tuple[Rule, ...] = (
    VlmDefer(),
    Qwen3VlOwned(),
    ThdMbs(),
    ArgminCpu(),
    ThdPartitionMcore(),
    Qwen3VlTruncate(),
    DsV4Contiguous(),
    FlopsInBatch(),
)
