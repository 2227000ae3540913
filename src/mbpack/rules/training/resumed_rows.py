"""Runs that start again from a checkpoint with other rows or another batch."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.evidence import SavedRun
from mbpack.config.in_effect import PACK_SIZE, count, pack_size
from mbpack.config.run import Run
from mbpack.facts.keys import IN_BATCH
from mbpack.rules.base import CRASH_RESUME, NOTE, SILENT_RESUME, Finding, Fix, Outcome, Rule, set_to

LOAD, GBS = "checkpoint.load", "train.global_batch_size"
OVERRIDE, USE = "scheduler.override_opt_param_scheduler", "scheduler.use_checkpoint_opt_param_scheduler"
LENGTH = ("train.train_samples", "scheduler.lr_decay_samples")


class ResumedRows(Rule):
    """A run goes on with the rows it was started with.

    A checkpoint holds how many rows were consumed, and the sampler skips as many. Rows of another kind (packed instead of
    single ones, packs of another size) are not the same ones: part of the data is left out, another part comes again, and
    nothing says so.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {saved: {iteration: 500, global_batch_size: 128}}
    checkpoint: {load: checkpoints/run}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {saved: {iteration: 500, pack_size: 2048}}
    checkpoint: {load: checkpoints/run}
    dataset: {seq_length: 2048, offline_packing_specs: {packed_sequence_size: 2048}}
    model: {seq_length: 2048}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/state.py`, `TrainState.consumed_train_samples`; `data/samplers.py`, `__iter__`
    """

    code, slug = "SCH108", "sched/resumed-rows"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        saved = run.evidence.saved
        if saved is None or saved.iteration <= 0:
            return
        then, now = _of_saved(saved), self._of(run)
        if then == now:
            return
        seen = f"{saved.iteration * saved.global_batch_size:,}" if saved.global_batch_size else f"{saved.iteration:,} steps of"
        key = PACK_SIZE if run.offline else IN_BATCH if run.in_batch else LOAD
        yield self.finding(
            run,
            SILENT_RESUME.as_warning(),
            key,
            f"the checkpoint in {saved.folder} was trained on {then}, this run has {now}",
            why=f"{seen} rows count as consumed, and as many of the new rows are skipped: they are other samples.",
            related=(LOAD,),
            fix=Fix(
                "checkpoint.pretrained_checkpoint in the place of checkpoint.load (weights only, from the first row), or the"
                " packing the run was started with"
            ),
        )

    @staticmethod
    def _of(run: Run) -> str:
        size = pack_size(run)
        return f"packs of {size:,} tokens" if run.offline and size else _SHORT[bool(run.in_batch)]


_SHORT = ("single rows", "rows packed in the batch")


def _of_saved(saved: SavedRun) -> str:
    return f"packs of {saved.pack_size:,} tokens" if saved.pack_size else _SHORT[saved.in_batch]


class ResumedBatch(Rule):
    """A run goes on with the global batch it was started with, or says what becomes of its schedule.

    The schedule of the learning rate is kept in samples, iterations x global_batch_size. Another batch makes another
    schedule, and loading the checkpoint stops where it differs from the saved one, unless one of
    `override_opt_param_scheduler` and `use_checkpoint_opt_param_scheduler` says which of the two stands.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {saved: {iteration: 500, global_batch_size: 64, pack_size: 4096}}
    checkpoint: {load: checkpoints/run}
    scheduler: {override_opt_param_scheduler: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {saved: {iteration: 500, global_batch_size: 8, pack_size: 4096}}
    checkpoint: {load: checkpoints/run}
    scheduler: {override_opt_param_scheduler: false}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `optimizer_param_scheduler.py`, `OptimizerParamScheduler._check_and_set`; `training/config.py`
      (`lr_decay_steps`, `lr_warmup_steps`)
    """

    code, slug = "SCH109", "sched/resumed-batch"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        saved, batch = run.evidence.saved, count(run, GBS)
        if saved is None or saved.iteration <= 0 or not saved.global_batch_size or not batch or batch == saved.global_batch_size:
            return
        if any(run.maybe(key) is not None for key in LENGTH):
            return  # a schedule in samples is the same with any batch
        told = run.maybe(OVERRIDE, False) is not False or run.maybe(USE, False) is not False
        yield self.finding(
            run,
            Outcome("info", NOTE.consequence, "resume") if told else CRASH_RESUME,
            GBS if run.wrote(GBS) else LOAD,
            f"the checkpoint in {saved.folder} was trained with global_batch_size {saved.global_batch_size}, this run has {batch}",
            why="The schedule is kept in samples: at the saved step it now stands at another learning rate."
            if told
            else "The schedule is kept in samples and differs from the saved one: loading the checkpoint stops (AssertionError).",
            related=(LOAD, OVERRIDE),
            fix=None
            if told
            else Fix(
                f"global_batch_size: {saved.global_batch_size}, or override_opt_param_scheduler: true for the new schedule",
                set_to(run, (GBS, saved.global_batch_size)),
            ),
        )


RULES: tuple[Rule, ...] = (ResumedRows(), ResumedBatch())
