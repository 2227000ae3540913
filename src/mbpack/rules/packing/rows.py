"""What counts once rows are packs: rows of a data set, samples of a step, iterations of a schedule."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import PACK_SIZE, count, pack_size
from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.classes import DatasetKind
from mbpack.facts.formulas import nearest_multiples, token_slots
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import CRASH_DATA, NOTE, Finding, Fix, Outcome, Rule, set_to, words

GBS, MAX_ROWS, DROP_LAST = "train.global_batch_size", "dataset.max_train_samples", "dataset.drop_last"
#: Samples a step from which a global batch was likely chosen for single samples rather than packs.
MANY_SAMPLES = 1024
#: Settings counted in iterations, each of which covers more samples once rows are packs.
PER_ITERATION = (
    "train.train_iters",
    "scheduler.lr_warmup_iters",
    "scheduler.lr_decay_iters",
    "validation.eval_interval",
    "checkpoint.save_interval",
)


def switched_on(run: Run) -> bool:
    """Whether the user switches offline packing on over a recipe that does not pack."""
    recipe = run.settings.recipe
    if recipe is None or not run.offline:
        return False
    if run.release >= R06:
        return not recipe.values.get(OFFLINE_SWITCH)
    size = recipe.values.get(PACK_SIZE, -1) if recipe.holds(SPECS) else None
    return not isinstance(size, int) or size <= 0


def switch_key(run: Run) -> str:
    """The key that switched offline packing on."""
    return OFFLINE_SWITCH if run.release >= R06 and run.wrote(OFFLINE_SWITCH) else SPECS


class NotEnoughRows(Rule):
    """A training set needs at least one global batch of rows.

    `dataset.max_train_samples` counts packed rows when packing is on, and the training set then has exactly that many.
    How many rows packing really gives depends on the data (`mbpack plan` tells).

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    dataset: {max_train_samples: 100}
    train: {global_batch_size: 128}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    dataset: {max_train_samples: 1000}
    train: {global_batch_size: 128}
    ```

    ## Upstream
    - 0.5 to 0.7: `data/loaders.py`, `build_train_valid_test_data_loaders`
    """

    code, slug = "GBS104", "gbs/not-enough-rows"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT:
            return
        limit = count(run, MAX_ROWS) if run.wrote(MAX_ROWS) else None
        seen = self._seen(run)
        rows, gbs = limit or seen or self._planned(run), count(run, GBS)
        if rows is None or gbs is None or rows <= 0 or gbs <= rows:
            return
        if run.value("dataset.dataloader_type") == "external":
            return
        if run.value(DROP_LAST, True) is False or (run.release >= R06 and run.value("train.num_epochs") is not None):
            return
        what = "packed rows" if run.offline else "samples"
        late = run.release < R05
        yield self.finding(
            run,
            CRASH_DATA,
            MAX_ROWS if limit else GBS,
            f"max_train_samples {rows} gives fewer {what} than one global batch of {gbs}"
            if limit
            else f"the training set {'holds' if seen else 'will hold'} {rows:,} {what}, fewer than one global batch of {gbs}",
            why="The last incomplete batch is dropped, which leaves none: "
            + (
                "the loader is likely empty and training stops or hangs."
                if late
                else "the start of training stops with an error."
            ),
            related=(GBS, DROP_LAST),
            fix=Fix(f"global_batch_size of at most {rows}, or more {what}"),
        )

    @staticmethod
    def _seen(run: Run) -> int | None:
        """Rows of the packed training data, where somebody looked at the files."""
        packs = run.evidence.packs.get("training") if run.offline else None
        return packs.rows if packs is not None else None

    @staticmethod
    def _planned(run: Run) -> int | None:
        """Packed rows that packing will give, where somebody counted the lengths."""
        planned = run.evidence.planned
        return planned.packs if planned is not None else None


class DropLastFalse(Rule):
    """The batch dataloader keeps an incomplete last batch for GPT-SFT only.

    It fills the batch with negative indices, which only GPT-SFT turns into rows without loss. For another dataset the
    start of training stops if the rows do not divide by the global batch.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {dataloader_type: batch, drop_last: false, enable_in_batch_packing: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {dataloader_type: batch, drop_last: true, enable_in_batch_packing: false}
    ```

    ## Upstream
    - 0.6, 0.7: `data/loaders.py`, `build_train_valid_test_data_loaders`
    """

    code, slug = "GBS105", "gbs/drop-last-false"
    releases = (R06, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.value(DROP_LAST, True) is not False or run.value("dataset.dataloader_type") != "batch":
            return
        if run.dataset in (DatasetKind.GPT_SFT, DatasetKind.NONE):
            return
        yield self.finding(
            run,
            CRASH_DATA,
            DROP_LAST,
            "drop_last: false with dataloader_type batch likely stops: only GPT-SFT can fill an incomplete batch",
            why="Unless the rows divide by global_batch_size, the start of training refuses the data set.",
            related=("dataset.dataloader_type",),
            fix=Fix("drop_last: true", set_to(run, (DROP_LAST, True))),
        )


class TokensPerStep(Rule):
    """global_batch_size counts packs once packing is on.

    A pack holds many samples, so a step averages many more of them than before: fewer optimizer steps an epoch, and
    another effective learning rate. Upstream advises to divide the global batch by the samples of a pack; no code does.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=glm45_air_106b_sft_config gpus=32 launcher=script
    dataset:
      packed_sequence_specs:
        _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs
        packed_sequence_size: 2048
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama32_1b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Upstream
    - 0.3 to 0.7: no check
    """

    code, slug = "GBS106", "gbs/tokens-per-step"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline:
            return
        gbs, width, factor = count(run, GBS), pack_size(run), self._samples_per_pack(run)
        if not gbs or not width or gbs < 0 or width < 0:
            return
        if factor is not None:
            yield from self._measured(run, gbs, factor)
            return
        if not switched_on(run) or run.wrote(GBS):
            return
        slots = token_slots(width, gbs)
        yield self.finding(
            run,
            NOTE,
            switch_key(run),
            f"global_batch_size {gbs} now counts packs: {slots.value:,} token slots a step = {slots.because}",
            why="It is the recipe's value for single samples; with several samples a pack a step averages that many more.",
            related=(GBS, PACK_SIZE),
            fix=Fix("global_batch_size divided by the samples of a pack (`mbpack plan` counts them), a multiple of MBS x DP"),
        )

    def _measured(self, run: Run, gbs: int, factor: float) -> Iterator[Finding]:
        """The packs are known: how many samples a step really averages."""
        samples = gbs * factor
        if factor < 2 or samples < MANY_SAMPLES:
            return
        same = max(gbs / factor, 1.0)
        yield self.finding(
            run,
            Outcome("warning", "note", "always"),
            GBS,
            f"one step averages about {samples:,.0f} samples: global_batch_size {gbs} packs x {factor:g} samples",
            why=f"global_batch_size counts packs. {gbs} samples a step would be about {same:.0f} packs.",
            related=(PACK_SIZE,),
            fix=Fix(f"global_batch_size: {self._near(run, same)}, if {gbs} was chosen for single samples"),
        )

    @staticmethod
    def _samples_per_pack(run: Run) -> float | None:
        """Samples of a pack: from the metadata, from the packs themselves, or as the counted lengths will be packed."""
        seen = run.evidence
        factors = seen.metadata_file.numbers("packing_factor") if seen.metadata_file is not None else []
        packs = seen.packs.get("training")
        if not factors and packs is not None and packs.statistics is not None:
            factors = [packs.statistics.packing_factor or 0.0]
        if not factors and seen.planned is not None:
            factors = [round(seen.planned.packing_factor, 2)]
        factor = next(iter(factors), None)
        return float(factor) if factor is not None and factor > 0 else None

    @staticmethod
    def _near(run: Run, packs: float) -> str:
        """Global batches near a number of packs that the data parallel size divides, as far as that is known."""
        try:
            unit = run.dp
        except Unknown:
            return f"about {packs:.0f}"
        return words(nearest_multiples(int(packs), unit), "or")


class RescaleOnPacking(Rule):
    """Switching packing on changes what an iteration covers.

    Warm-up, decay, evaluation and save intervals and the length of training are counted in iterations. With packs an
    iteration covers several times the samples, so the same numbers mean more epochs and a slower schedule per sample.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=glm45_air_106b_sft_config gpus=32 launcher=script
    dataset:
      packed_sequence_specs:
        _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs
        packed_sequence_size: 2048
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=glm45_air_106b_sft_config gpus=32 launcher=script
    model: {pipeline_model_parallel_size: 2}
    train: {train_iters: 200}
    scheduler: {lr_warmup_iters: 10, lr_decay_iters: 200}
    dataset:
      packed_sequence_specs:
        _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs
        packed_sequence_size: 2048
    ```

    ## Upstream
    - 0.3 to 0.7: no check; 0.3: the documentation of packed sequences
    """

    code, slug = "SCH101", "sched/rescale-on-packing"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not switched_on(run) or any(run.wrote(key) for key in (*PER_ITERATION, GBS, "train.num_epochs")):
            return
        held = [key.rpartition(".")[2] for key in PER_ITERATION if run.maybe(key) is not None]
        yield self.finding(
            run,
            Outcome("warning", "note", "always"),
            switch_key(run),
            f"packing is switched on and the recipe's {words(held)} stay as they were",
            why="They are counted in iterations, and an iteration now covers the samples of global_batch_size packs:"
            " estimated"
            " epochs = train_iters / (packed rows / global_batch_size).",
            related=PER_ITERATION,
            fix=Fix("choose train_iters and the schedule by packed rows (`mbpack plan` counts them)"),
        )


RULES: tuple[Rule, ...] = (
    NotEnoughRows(),
    DropLastFalse(),
    TokensPerStep(),
    RescaleOnPacking(),
)
