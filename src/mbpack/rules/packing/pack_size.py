"""The pack size against the sequence lengths, and lengths that are likely not meant."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import (
    DATA_SEQ,
    MODEL_SEQ,
    PACK_SIZE,
    TRAIN_PACKS,
    count,
    likely_multiple,
    packs_given,
    sample_limit,
)
from mbpack.config.run import Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import R03, R05
from mbpack.facts.widths import MEASURED_WIDTH_LOADER, near_round_width
from mbpack.rules.base import (
    CRASH_DATA,
    CRASH_STEP,
    IGNORED,
    LAUNCHER_OVERRIDES,
    LAUNCHER_SETS,
    NOTE,
    Finding,
    Fix,
    Outcome,
    Rule,
    set_to,
)

PP = "model.pipeline_model_parallel_size"


class PackSizeEqualsSeq(Rule):
    """packed_sequence_size, dataset.seq_length and model.seq_length belong together.

    Only the last two are compared at start-up. Samples are cut at `dataset.seq_length`: if that is longer than the
    pack, the first sample that does not fit stops packing with a KeyError on rank 0 while the others wait; if it is
    shorter, long samples lose tokens that the pack had room for. From 0.6 on `max_single_sequence_length` limits
    samples apart from the pack, and `run_recipe.py` copies `dataset.seq_length` to the pack size.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 8192}
    dataset: {seq_length: 8192, offline_packing_specs: {packed_sequence_size: 4096}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 8192}
    dataset: {seq_length: 8192, offline_packing_specs: {packed_sequence_size: 8192}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packing_utils.py`, `fill_packing_strategy`
    - 0.6, 0.7: `data/packing/algorithms.py`, `fill_packing_strategy`
    - 0.6, 0.7: `scripts/training/recipe_runner.py`, `sync_offline_packing_alignment`
    """

    code, slug = "SEQ102", "seq/pack-size-equals-seq"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or run.dataset is not DatasetKind.GPT_SFT or run.specs_plain:
            return
        size = count(run, PACK_SIZE)
        if run.repaired:
            length = count(run, DATA_SEQ)
            if length != size:
                yield self._repaired(run, size, length)
            return
        if size is None or size <= 0:
            return
        limit = sample_limit(run)
        if limit is not None and limit > size:
            yield self._too_long(run, size, limit)
        elif limit is not None and 0 < limit < size and limit == run.maybe(DATA_SEQ) == run.maybe(MODEL_SEQ):
            yield self._shorter(run, size, limit)
        yield from self._model(run, size)

    def _repaired(self, run: Run, size: int | None, length: int | None) -> Finding:
        wrote = run.wrote(PACK_SIZE)
        return self.finding(
            run,
            LAUNCHER_OVERRIDES if wrote else LAUNCHER_SETS,
            PACK_SIZE,
            f"run_recipe.py sets packed_sequence_size to dataset.seq_length {length}"
            + (f"; the {size} written here is not used" if wrote else ""),
            why="The launcher keeps pack and sequence length equal.",
            related=(DATA_SEQ,),
            fix=Fix(f"packed_sequence_size: {length}", set_to(run, (PACK_SIZE, length)), safe=True) if wrote else None,
        )

    def _too_long(self, run: Run, size: int, limit: int) -> Finding:
        given = packs_given(run)
        place = PACK_SIZE if run.wrote(PACK_SIZE) or not run.wrote(DATA_SEQ) else DATA_SEQ
        return self.finding(
            run,
            CRASH_DATA.as_warning() if given else CRASH_DATA,
            place,
            f"samples of up to {limit:,} tokens do not fit a pack of {size:,}"
            + (", should these packs have to be built" if given else ""),
            why="The first longer sample stops packing with a KeyError (its length) on rank 0; the other ranks wait"
            " and time out.",
            related=tuple(key for key in (DATA_SEQ, PACK_SIZE, TRAIN_PACKS if given else MODEL_SEQ) if key != place),
            fix=Fix(
                f"packed_sequence_size: {limit} (all three lengths equal), and rebuild the packed data",
                () if given else set_to(run, (PACK_SIZE, limit)),
            ),
        )

    def _shorter(self, run: Run, size: int, limit: int) -> Finding:
        place = DATA_SEQ if run.wrote(DATA_SEQ) and not run.wrote(PACK_SIZE) else PACK_SIZE
        return self.finding(
            run,
            NOTE.as_warning(),
            place,
            f"samples are cut at dataset.seq_length {limit:,} although a pack holds {size:,} tokens",
            why=f"The packs are filled to {size:,} all the same, so no token is wasted; model.seq_length must equal the"
            " dataset's and is then smaller than the rows it gets.",
            related=tuple(key for key in (DATA_SEQ, MODEL_SEQ, PACK_SIZE) if key != place),
            fix=self._both(run, size),
        )

    def _model(self, run: Run, size: int) -> Iterator[Finding]:
        """A model length below the pack: harmless unless pipeline buffers take their width from it."""
        length = count(run, MODEL_SEQ)
        if length is None or length <= 0 or length >= size:
            return
        loader = run.value("dataset.dataloader_type") if run.pp > 1 else MEASURED_WIDTH_LOADER
        crash = loader != MEASURED_WIDTH_LOADER and not run.flag("model.variable_seq_lengths")
        if not crash and length == run.maybe(DATA_SEQ):
            return  # said together with the dataset's length
        yield self.finding(
            run,
            CRASH_STEP if crash else Outcome("warning", "note", "always"),
            MODEL_SEQ,
            f"rows of {size:,} tokens likely do not fit pipeline buffers of model.seq_length {length:,}"
            if crash
            else f"model.seq_length {length:,} is smaller than the packs of {size:,} tokens",
            why=f"With dataloader_type {loader} the stages exchange rows of model.seq_length tokens." if crash else "",
            related=(PACK_SIZE, PP),
            fix=self._both(run, size),
        )

    @staticmethod
    def _both(run: Run, size: int) -> Fix:
        """The sequence lengths raised to the pack size, where the topology allows that length."""
        fits = size % likely_multiple(run).value == 0
        return Fix(
            f"seq_length: {size} for dataset and model" + ("" if fits else ", with a pack size that suits the topology"),
            set_to(run, (DATA_SEQ, size), (MODEL_SEQ, size)) if fits else (),
        )


class OddPackSize(Rule):
    """A pack size next to a round one is often a typing mistake.

    Any width is legal, but kernels, FP8 and the alignment of most topologies prefer multiples of 128.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    model: {seq_length: 8129}
    dataset: {seq_length: 8129, offline_packing_specs: {packed_sequence_size: 8129}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    model: {seq_length: 8192}
    dataset: {seq_length: 8192, offline_packing_specs: {packed_sequence_size: 8192}}
    ```

    ## Upstream
    - 0.3 to 0.7: no check
    """

    code, slug = "SEQ104", "seq/odd-pack-size"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline:
            return
        key = DATA_SEQ if run.repaired else PACK_SIZE
        size = count(run, key)
        near = near_round_width(size) if size is not None else None
        if near is None:
            return
        yield self.finding(
            run,
            NOTE,
            key,
            f"a width of {size:,} tokens is unusual; was {near:,} meant?",
            why="Kernels and most topologies prefer multiples of 128.",
            fix=Fix(f"{key.rpartition('.')[2]}: {near}, if it was a typing mistake"),
        )


class EnergonEncoderKeepsLength(Rule):
    """Up to 0.5 an Energon task encoder keeps the recipe's sequence length.

    The recipe copies the length into the task encoder when it is built; an override of `dataset.seq_length` comes too
    late for it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    model: {seq_length: 16384}
    dataset: {seq_length: 16384, path: data/energon}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    model: {seq_length: 16384}
    dataset: {seq_length: 16384, path: data/energon}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/energon/energon_provider.py`; the Energon recipes
    """

    code, slug = "SEQ105", "seq/energon-encoder-keeps-length"
    releases = (R03, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        recipe = run.settings.recipe
        if recipe is None or not run.wrote(DATA_SEQ) or run.dataset is not DatasetKind.ENERGON:
            return
        kept = recipe.values.get(DATA_SEQ)
        wanted = run.value(DATA_SEQ)
        if kept is None or kept == wanted or run.wrote("dataset.task_encoder"):
            return
        yield self.finding(
            run,
            IGNORED.as_warning(),
            DATA_SEQ,
            f"the task encoder keeps the recipe's length {kept}; seq_length {wanted} does not reach it",
            why="Up to 0.5 the recipe hands the length to the encoder when it is built, before the override is applied.",
            fix=Fix("Megatron-Bridge 0.6, or set the length of the task encoder in Python"),
        )


RULES: tuple[Rule, ...] = (
    PackSizeEqualsSeq(),
    OddPackSize(),
    EnergonEncoderKeepsLength(),
)
