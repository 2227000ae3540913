"""What Energon packing does after start-up: loaders that fail, samples that vanish, counts, memory and resume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config import in_effect
from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R03, R05, R06, R07
from mbpack.rules.base import (
    CRASH_DATA,
    IGNORED,
    NOTE,
    REJECTED_LOAD,
    SILENT_RESUME,
    Finding,
    Fix,
    Outcome,
    RejectingRule,
    Rule,
    is_number,
    set_to,
)
from mbpack.rules.lookup import foreign

BUFFER, WORKERS, SEQ = "dataset.packing_buffer_size", "dataset.num_workers", "dataset.seq_length"
IN_BATCH, VPP = "dataset.enable_in_batch_packing", "model.virtual_pipeline_model_parallel_size"
SAVE, LOAD = "checkpoint.save", "checkpoint.load"


class LegacyBuffer(RejectingRule):
    """packing_buffer_size packs nothing before 0.7.

    Up to 0.5 the Energon dataset has no such field: an override is ignored. 0.6 hands the value to Energon, which
    fails when the loader is built, because the task encoder has no packing hooks. The WAN and FLUX datasets have
    another field of that name.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    dataset: {path: data/energon}
    ```

    ## Upstream
    - 0.3 to 0.5: `EnergonProvider` has no such field
    - 0.6: `data/energon/base_energon_datamodule.py` forwards it; `QwenVLTaskEncoder` has no `select_samples_to_pack`
    """

    code, slug = "NRG118", "nrg/legacy-buffer"
    releases = (R03, R06)

    def check(self, run: Run) -> Iterator[Finding]:
        written = foreign(run, BUFFER)
        if (written is None and run.release <= R05) or run.dataset is not DatasetKind.ENERGON:
            return
        if run.settings.class_at("dataset") is None:
            raise Unknown("dataset._target_", ("recipe",))  # WAN and FLUX have another field of that name
        size = run.value(BUFFER) if written is None else written.value
        if size is None or (run.release >= R06 and is_number(size) and size <= 0):
            return
        fix = Fix("Megatron-Bridge 0.7, or in-batch packing with micro_batch_size 2 or more", set_to(run, (BUFFER, None)))
        if run.release <= R05:
            yield self.finding(
                run,
                REJECTED_LOAD if run.complete else IGNORED,
                BUFFER,
                f"packing_buffer_size does nothing in {run.release}: Energon datasets pack natively from 0.7 on",
                fix=fix,
                setting=written,
                station="load" if run.complete else "",
                on_key=True,
            )
            return
        yield self.finding(
            run,
            CRASH_DATA,
            BUFFER,
            "0.6 cannot pack with packing_buffer_size: the loader fails when it is built",
            why="Energon asks the task encoder for packing hooks that it only has from 0.7 on.",
            fix=fix,
        )


class BufferUnset(Rule):
    """Without packing_buffer_size an Energon dataset packs nothing, and says nothing.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    dataset: {path: data/energon, packing_buffer_size: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: Energon calls the packing hooks of the task encoder only with a buffer size
    """

    code, slug = "NRG119", "nrg/buffer-unset-no-packing"
    releases = (R07, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.ENERGON or not run.wrote(BUFFER) or run.is_set(BUFFER) or run.in_batch:
            return
        yield self.finding(
            run,
            Outcome("info", "ignored", "load"),
            BUFFER,
            "packing_buffer_size null: nothing is packed",
            why="Energon packs only with a buffer size.",
            fix=Fix("packing_buffer_size: 8 to 16, if the run should be packed"),
        )


class BufferPerWorker(Rule):
    """Every loader worker holds a packing buffer of its own.

    The samples of a buffer are prepared, pixels included. A buffer of 8 to 16 samples packs well enough to start with.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 200, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `data/energon/base_energon_datamodule.py`, `EnergonMultiModalDataModule`
    """

    code, slug = "NRG120", "nrg/buffer-per-worker"
    notes_only = True
    releases = (R07, NIGHTLY)
    reports_unknown = False

    #: Buffers up to this many samples pass without a word.
    USUAL = 16

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.energon_packing:
            return
        size, workers = in_effect.count(run, BUFFER), in_effect.count(run, WORKERS)
        if size is None or size <= self.USUAL or workers is None:
            return
        workers = max(workers, 1)
        yield self.finding(
            run,
            NOTE,
            BUFFER,
            f"{size * workers} prepared samples wait in memory on every data parallel rank",
            why=f"packing_buffer_size {size} x {workers} worker(s); validation workers hold buffers as well.",
            related=(WORKERS,),
            fix=Fix("packing_buffer_size: 8 to 16 to start with"),
        )


class CountsArePacks(Rule):
    """With native Energon packing global_batch_size and eval_iters count packs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: null}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `data/energon/base_energon_datamodule.py`; a batch of the loader is one pack
    """

    code, slug = "NRG121", "nrg/counts-are-packs"
    notes_only = True
    releases = (R07, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.energon_packing:
            yield self.finding(
                run,
                NOTE,
                "train.global_batch_size",
                "global_batch_size and validation.eval_iters count packs, not samples",
                why="The loader packs before the batch is counted; a step trains on more samples than the number says.",
                related=(BUFFER,),
            )


class OverlongSampleSkipped(Rule):
    """Native Energon packing drops samples that are longer than dataset.seq_length.

    Encoding such a sample fails, Energon logs it and goes on; only 100 failures in a row stop the run. Whether there
    are such samples depends on the data.

    ## Upstream
    - 0.7: `models/qwen_vl/data/energon.py`, `encode_sample`
    """

    code, slug = "NRG117", "nrg/overlong-sample-skipped"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterable[Finding]:
        if run.energon_packing:
            length = run.maybe(SEQ)
            limit = f" {length}" if length is not None else ""
            raise Unknown("data", ("data",), f"samples longer than dataset.seq_length{limit} would be dropped silently")
        return ()


class EnergonResume(Rule):
    """A packed Energon run does not always go on where it stopped.

    Up to 0.5 the loader's state is never restored: a resumed run starts the data from the beginning. From 0.6 on it is
    restored with the same data parallel size; with a virtual pipeline, or where the state directory is missing, it
    silently is not. Worker counts, seed, buffer and length are never compared.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base, save: run/ckpt}
    dataset: {path: data/energon, pack_sequences_in_batch: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base, save: run/ckpt}
    dataset: {path: data/energon, enable_in_batch_packing: true}
    ```

    ## Upstream
    - 0.6, 0.7: `training/checkpointing.py`, `maybe_load_dataloader_state`
    """

    code, slug = "NRG122", "nrg/resume"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.ENERGON or not (run.in_batch or run.energon_packing):
            return
        saves, loads = run.maybe(SAVE) is not None, run.maybe(LOAD) is not None
        if not saves and not loads:
            return
        key = LOAD if run.wrote(LOAD) or not saves else SAVE
        if run.release <= R05:
            yield self.finding(
                run,
                SILENT_RESUME.as_warning(),
                key,
                f"{run.release} never restores the Energon loader: a resumed run starts the data from the beginning",
                fix=Fix("plan for it, or Megatron-Bridge 0.6 or later"),
            )
        elif run.maybe(VPP) is not None:
            yield self.finding(
                run,
                SILENT_RESUME.as_warning(),
                VPP,
                "with a virtual pipeline the Energon loader's state is not restored on resume",
                why="The loader is a list of iterators then, and restoring skips lists without a message.",
                related=(key,),
                fix=Fix("no virtual pipeline, or start the data anew knowingly"),
            )
        elif run.wrote(LOAD) and loads:
            yield self.finding(
                run,
                Outcome("info", "note", "resume"),
                LOAD,
                "an exact resume of packed Energon data needs the same GPUs, workers, seed, buffer and seq_length",
                why="Only a changed data parallel size is noticed: the state file of a rank is missing then.",
            )


class EnergonExhaustion(Rule):
    """Old Energon libraries do not drain the packing buffer at the end of the data.

    Near the end of an epoch an assertion likely stops the run (reported); newer libraries pack what is left.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: null}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - Energon, older releases: the packing dataset asserts an empty buffer
    """

    code, slug = "NRG124", "nrg/exhaustion"
    releases = (R07, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.energon_packing:
            yield self.finding(
                run,
                Outcome("info", "crash", "always"),
                BUFFER,
                "with an old Energon library a run likely stops when the data end with a filled packing buffer",
                fix=Fix("the Energon release that this Megatron-Bridge pins"),
            )


RULES: tuple[Rule, ...] = (
    LegacyBuffer(),
    BufferUnset(),
    BufferPerWorker(),
    CountsArePacks(),
    OverlongSampleSkipped(),
    EnergonResume(),
    EnergonExhaustion(),
)
