"""Training length and learning-rate schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import EPOCHS, ITERS, SAMPLES, WARM_UP_FRACTION
from mbpack.facts.releases import NIGHTLY, R06, R07
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words

WSD = "scheduler.lr_wsd_decay_iters"
GBS = "train.global_batch_size"


def _recipe_steps(run: Run) -> tuple[Edit, ...]:
    """Takes back what the file says about train_iters where the recipe's own number then counts; nothing elsewhere."""
    recipe = run.settings.recipe
    steps = recipe.value(ITERS) if recipe is not None else None
    written = run.wrote(ITERS) and isinstance(steps, int) and steps > 0
    return (Edit("delete", ITERS),) if written else ()


class TrainModeExclusive(RejectingRule):
    """Exactly one of train_iters, train_samples and num_epochs says how long to train.

    Recipes set train_iters, so adding another one to a recipe also means setting train_iters to null.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {num_epochs: 3}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {num_epochs: 3, train_iters: null}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `TrainingConfig.finalize`
    """

    code, slug = "SCH102", "sched/train-mode-exclusive"

    def check(self, run: Run) -> Iterator[Finding]:
        keys = [ITERS, SAMPLES] + ([EPOCHS] if run.release >= R06 else [])
        given = [key for key in keys if run.is_set(key)]
        if not given:
            yield self.finding(
                run,
                REJECTED,
                ITERS,
                f"nothing says how long to train: set one of {words((k.partition('.')[2] for k in keys), 'or')}",
                fix=self._some_length(run),
            )
        elif len(given) > 1:
            extra = next((key for key in given[1:] if run.wrote(key)), given[1])
            yield self.finding(
                run,
                REJECTED,
                extra,
                f"{words(key.partition('.')[2] for key in given)} are all set; exactly one may be",
                related=given,
                fix=Fix(
                    f"{given[0].partition('.')[2]}: null, to train by {extra.partition('.')[2]}",
                    set_to(run, *((key, None) for key in given if key != extra)),
                ),
            )
        if SAMPLES in given:
            yield from self._samples(run)

    @staticmethod
    def _some_length(run: Run) -> Fix:
        edits = _recipe_steps(run)
        if edits and run.settings.recipe is not None:
            return Fix(f"leave train_iters to the recipe: {run.settings.recipe.value(ITERS):,} steps", edits)
        return Fix("train.train_iters: the number of optimizer steps")

    def _samples(self, run: Run) -> Iterator[Finding]:
        if run.is_set(SAMPLES):
            samples = run.number(SAMPLES)
            if samples <= 0:
                yield self.finding(
                    run,
                    REJECTED,
                    SAMPLES,
                    f"train_samples must be positive, found {samples}",
                    fix=Fix("a positive number of samples (packed rows when packing is on)"),
                )
            elif run.wrote(GBS) and not run.number(GBS):
                yield self.finding(
                    run,
                    REJECTED,
                    GBS,
                    f"train_samples is divided by global_batch_size, which is {run.number(GBS) if run.is_set(GBS) else 'null'}",
                    related=(SAMPLES,),
                    fix=Fix("a positive global_batch_size"),
                    station=f"{self.slug}@batch",
                )


class NumEpochs(RejectingRule):
    """num_epochs works only with GPT-SFT data and the batch dataloader.

    Both conditions are the very first checks of the validation.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    train: {num_epochs: 3, train_iters: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {num_epochs: 3, train_iters: null}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate` and `TrainingConfig.finalize`
    """

    code, slug = "SCH103", "sched/num-epochs"
    releases = (R06, NIGHTLY)

    def stops_at(self, run: Run) -> str:
        return "sched/num-epochs@train"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.is_set(EPOCHS):
            return
        written = run.settings.written("dataset")
        if written is not None and isinstance(written.value, str):
            yield self._other_kind(run, "the text " + repr(written.value))
            return
        if run.dataset is not DatasetKind.GPT_SFT:
            yield self._other_kind(run, run.dataset.value)
        elif run.value("dataset.dataloader_type") != "batch":
            yield self.finding(
                run,
                REJECTED,
                EPOCHS,
                f"num_epochs needs dataloader_type batch, found {run.value('dataset.dataloader_type')}",
                related=("dataset.dataloader_type",),
                fix=_loader_or_steps(run),
            )
        epochs = run.number(EPOCHS)
        if epochs <= 0:
            yield self.finding(
                run,
                REJECTED,
                EPOCHS,
                f"num_epochs must be positive, found {epochs}",
                fix=Fix("a positive number; fractions such as 0.5 are fine"),
                station="sched/num-epochs@train",
            )
        elif not run.is_set(GBS):
            yield self.finding(
                run,
                REJECTED,
                EPOCHS,
                "num_epochs needs train.global_batch_size",
                fix=Fix("set train.global_batch_size"),
                station="sched/num-epochs@train",
            )

    def _other_kind(self, run: Run, kind: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            EPOCHS,
            f"num_epochs needs a GPT-SFT dataset, this one is {kind}",
            why="Only that dataset knows its true size; the others build as many samples as are asked for.",
            fix=Fix("train.train_iters instead of train.num_epochs", self._without_epochs(run)),
        )

    @staticmethod
    def _without_epochs(run: Run) -> tuple[Edit, ...]:
        """num_epochs taken back, where something else then says how long to train."""
        if run.is_set(ITERS) or run.is_set(SAMPLES):
            return set_to(run, (EPOCHS, None))
        steps = _recipe_steps(run)
        return (*set_to(run, (EPOCHS, None)), *steps) if steps else ()


class Steps(RejectingRule):
    """The learning-rate schedule must have a positive length and fit the way training is counted.

    Decay and warm-up given in iterations are multiplied by the global batch; max_steps (0.6 and later) may not be
    shorter than the training and belongs to iteration-based training only.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {train_iters: 1000}
    scheduler: {max_steps: 500}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {train_iters: 1000}
    scheduler: {max_steps: 1000}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `_validate_training_scheduler_compatibility`, `_calculate_scheduler_steps`,
      `SchedulerConfig.finalize`
    """

    code, slug = "SCH104", "sched/steps"

    def check(self, run: Run) -> Iterator[Finding]:
        yield from self._mixed_fields(run)
        if run.is_set(SAMPLES):
            yield from self._by_samples(run)
        else:
            yield from self._by_iterations(run)

    def _refuse(
        self, run: Run, key: str, message: str, fix: str, station: str = "", edits: tuple[tuple[str, Any], ...] = ()
    ) -> Finding:
        pairs = ((f"scheduler.{name}", value) for name, value in edits)
        return self.finding(run, REJECTED, key, message, fix=Fix(fix, set_to(run, *pairs)), station=station)

    def _mixed_fields(self, run: Run) -> Iterator[Finding]:
        early, station = "sched/steps@decay", "sched/steps@finalize"
        if run.release >= R06:
            limit = run.number("scheduler.max_steps")
            if limit is not None and limit <= 0:
                yield self._refuse(
                    run,
                    "scheduler.max_steps",
                    f"max_steps must be positive, found {limit}",
                    "max_steps: null",
                    early,
                    (("max_steps", None),),
                )
        start = run.number("scheduler.start_weight_decay")
        if start is not None:
            end = run.number("scheduler.end_weight_decay")
            if start < 0 or end is None or end < start:
                yield self._refuse(
                    run,
                    "scheduler.start_weight_decay",
                    f"weight decay must start at 0 or more and not fall: {start} to {in_yaml(end)}",
                    "end_weight_decay of at least start_weight_decay",
                    early,
                    (("end_weight_decay", start),) if start >= 0 else (),
                )
        by_iters = [k for k in ("lr_decay_iters", "lr_wsd_decay_iters") if run.is_set(f"scheduler.{k}")]
        if run.value("scheduler.lr_warmup_iters", 0) != 0:
            by_iters.append("lr_warmup_iters")
        by_samples = [k for k in ("lr_decay_samples", "lr_wsd_decay_samples") if run.is_set(f"scheduler.{k}")]
        if run.value("scheduler.lr_warmup_samples", 0) != 0:
            by_samples.append("lr_warmup_samples")
        if by_iters and by_samples:
            yield self._refuse(
                run,
                f"scheduler.{by_samples[0]}",
                f"the schedule mixes iterations ({words(by_iters)}) with samples ({words(by_samples)})",
                f"the kind that training counts by: {'samples' if run.is_set(SAMPLES) else 'iterations'}",
                station,
                tuple((name, 0 if "warmup" in name else None) for name in (by_iters if run.is_set(SAMPLES) else by_samples)),
            )
        if run.is_set(WARM_UP_FRACTION):
            counted = [k for k in ("lr_warmup_iters", "lr_warmup_samples") if run.value(f"scheduler.{k}", 0) != 0]
            if counted:
                yield self._refuse(
                    run,
                    WARM_UP_FRACTION,
                    f"lr_warmup_fraction and {words(counted)} both set the warm-up",
                    f"{counted[0]}: 0, or no lr_warmup_fraction",
                    station,
                    tuple((name, 0) for name in counted) if run.wrote(WARM_UP_FRACTION) else (),
                )

    def _by_samples(self, run: Run) -> Iterator[Finding]:
        compat = "sched/steps@compat"
        if run.release >= R06 and run.is_set("scheduler.max_steps"):
            yield self._refuse(
                run,
                "scheduler.max_steps",
                "max_steps counts iterations, training counts samples",
                "max_steps: null",
                compat,
                (("max_steps", None),),
            )
        if run.is_set("scheduler.lr_decay_iters"):
            yield self._refuse(
                run,
                "scheduler.lr_decay_iters",
                "lr_decay_iters counts iterations, training counts samples",
                "lr_decay_samples instead",
                compat,
                self._counted(run, "lr_decay_iters", "lr_decay_samples"),
            )
        if run.value("scheduler.lr_warmup_iters", 0) != 0:
            yield self._refuse(
                run,
                "scheduler.lr_warmup_iters",
                "lr_warmup_iters counts iterations, training counts samples",
                "lr_warmup_samples instead",
                compat,
                self._counted(run, "lr_warmup_iters", "lr_warmup_samples"),
            )
        decay = run.number("scheduler.lr_decay_samples")
        decay = run.number(SAMPLES) if decay is None else decay
        if decay is not None and decay <= 0:
            yield self._refuse(
                run,
                "scheduler.lr_decay_samples",
                f"the schedule has {decay} decay samples",
                "a positive number, or null: as long as the training",
                edits=(("lr_decay_samples", None),) if run.number(SAMPLES) > 0 else (),
            )
            return
        self._warm_up(run, "scheduler.lr_warmup_samples")

    @staticmethod
    def _warm_up(run: Run, counted: str) -> None:
        """The warm-up is compared with the decay: text in its place stops the start-up there."""
        if run.number(WARM_UP_FRACTION) is None:
            run.number(counted, 0)

    @staticmethod
    def _counted(run: Run, kind: str, other: str) -> tuple[tuple[str, Any], ...]:
        """The same length in the other unit: an iteration is a global batch of samples."""
        length, gbs, nothing = run.number(f"scheduler.{kind}"), run.maybe(GBS), 0 if "warmup" in kind else None
        if not isinstance(gbs, int) or gbs <= 0 or not isinstance(length, int) or length <= 0:
            return ((kind, nothing),)
        return ((kind, nothing), (other, length * gbs if other.endswith("samples") else -(-length // gbs)))

    def _by_iterations(self, run: Run) -> Iterator[Finding]:
        compat = "sched/steps@compat"
        if run.is_set("scheduler.lr_decay_samples"):
            yield self._refuse(
                run,
                "scheduler.lr_decay_samples",
                "lr_decay_samples counts samples, training counts iterations",
                "lr_decay_iters instead",
                compat,
                self._counted(run, "lr_decay_samples", "lr_decay_iters"),
            )
        if run.value("scheduler.lr_warmup_samples", 0) != 0:
            yield self._refuse(
                run,
                "scheduler.lr_warmup_samples",
                "lr_warmup_samples counts samples, training counts iterations",
                "lr_warmup_iters instead",
                compat,
                self._counted(run, "lr_warmup_samples", "lr_warmup_iters"),
            )
        if not run.is_set(ITERS):
            return  # epochs: steps are computed once the dataset is built
        limit = run.number("scheduler.max_steps") if run.release >= R06 else None
        if limit is not None and limit < run.number(ITERS):
            iters = run.number(ITERS)
            yield self._refuse(
                run,
                "scheduler.max_steps",
                f"max_steps {limit} is shorter than train_iters {iters}",
                f"max_steps: {iters} or more, or null",
                edits=(("max_steps", None),),
            )
            return
        decay = limit if limit is not None else run.number("scheduler.lr_decay_iters")
        decay = run.number(ITERS) if decay is None else decay
        gbs = run.number(GBS)
        if gbs is not None and decay * gbs <= 0:
            key = GBS if gbs <= 0 else "scheduler.lr_decay_iters" if run.is_set("scheduler.lr_decay_iters") else ITERS
            yield self._refuse(
                run,
                key,
                f"the schedule has {decay * gbs} decay steps = {decay} iterations x global batch {gbs}",
                f"a positive {key.rpartition('.')[2]}",
                edits=(("lr_decay_iters", None),) if key == "scheduler.lr_decay_iters" and run.number(ITERS) > 0 else (),
            )
            return
        for key in (ITERS, WSD):
            run.check_factor(key)
        self._warm_up(run, "scheduler.lr_warmup_iters")


def _loader_or_steps(run: Run) -> Fix:
    """The loader that epochs need; packing per global batch and, for text, in the batch (0.7) excludes it."""
    if run.release >= R07 and (run.maybe("dataset.enable_global_batch_packing") or run.maybe("dataset.enable_in_batch_packing")):
        return Fix("train.train_iters instead of num_epochs: this packing excludes the loader that epochs need")
    return Fix("dataset.dataloader_type: batch", set_to(run, ("dataset.dataloader_type", "batch")))


RULES: tuple[Rule, ...] = (TrainModeExclusive(), NumEpochs(), Steps())
