"""The width of a packed row and what it must divide by."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import (
    DATA_SEQ,
    IN_BATCH,
    KWARGS_WIDTH,
    PACK_SIZE,
    count,
    cp_size,
    fixed_width,
    needed_multiple,
    pack_size,
    packs_in_batch,
    pad_multiple,
    width_unit,
)
from mbpack.config.precision import Fp8, fp8_in_effect
from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.widths import FP8_BLOCK, FP8_TOKENS, ROW_ROUNDING, aligned_rounding, dynamic_width_aligned
from mbpack.rules.base import (
    CRASH_STEP,
    WASTE,
    Finding,
    Fix,
    Outcome,
    Rule,
    set_to,
)
from mbpack.rules.packing.alignment import CP, SP, TP

PP, EP = "model.pipeline_model_parallel_size", "model.expert_model_parallel_size"
FIXED = "dataset_kwargs.pad_to_max_length: true"


def width_key(run: Run) -> str:
    """The key that decides the width of an offline pack: ``run_recipe.py`` copies the sequence length."""
    return DATA_SEQ if run.repaired else PACK_SIZE


def nearest(width: int, unit: int) -> str:
    """The usable widths next to one that is not, as text."""
    return " or ".join(f"{number:,}" for number in formulas.nearest_multiples(width, unit))


class WidthTpSp(Rule):
    """A fixed row width must divide by CP*TP under sequence parallel.

    The embedding's output is scattered over the tensor parallel ranks along the sequence; a width that does not divide
    stops the first step.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 4098, tensor_model_parallel_size: 4, sequence_parallel: true}
    dataset: {seq_length: 4098, offline_packing_specs: {packed_sequence_size: 4098}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 4096, tensor_model_parallel_size: 4, sequence_parallel: true}
    dataset: {seq_length: 4096, offline_packing_specs: {packed_sequence_size: 4096}}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `tensor_parallel/mappings.py`, `_reduce_scatter_along_first_dim`
    """

    code, slug = "ALN103", "align/width-tp-sp"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or not run.sp or not fixed_width(run):
            return
        width, unit = pack_size(run), width_unit(run)
        if width is None or width <= 0 or width % unit.value == 0:
            return
        yield self.finding(
            run,
            CRASH_STEP,
            width_key(run),
            f"a row of {width:,} tokens cannot be split over {unit.because} = {unit.value} ranks",
            why="Sequence parallel scatters the row over the tensor parallel ranks; a rest stops the first step.",
            related=(TP, SP, CP),
            fix=Fix(f"a width of {nearest(width, needed_multiple(run).value)} (model, dataset and pack alike)"),
        )


class PackSizeMultiple(Rule):
    """The pack size must be a multiple of the padding multiple.

    Context parallelism cuts a row into 2*CP pieces. A fixed width that 2*CP does not divide is refused at the first step,
    by Transformer Engine's own check of the total. (A width that only sequence parallel cannot split: `align/width-tp-sp`.)

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {packed_sequence_size: 4098, pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset.collate_fn`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset.collate_fn`
    """

    code, slug = "ALN104", "align/pack-size-multiple"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or not fixed_width(run) or cp_size(run) <= 1:
            return
        width, needed = pack_size(run), needed_multiple(run)
        pieces = 2 * cp_size(run)
        if width is None or width <= 0 or width % pieces == 0:
            return
        if run.sp and width % width_unit(run).value:
            return  # align/width-tp-sp stops the same step
        yield self.finding(
            run,
            CRASH_STEP,
            width_key(run),
            f"the row width {width:,} is no multiple of {needed.value}",
            why=f"{needed.because} = {needed.value}. Context parallelism cuts a row into {pieces} pieces; the first step"
            " refuses a total that does not divide.",
            related=(CP, TP, SP),
            fix=Fix(f"a width of {nearest(width, needed.value)} (model, dataset and pack alike)"),
        )


class DynamicWidth16(Rule):
    """Dynamic rows are rounded up to 16 tokens, which may be too coarse or too fine for the topology.

    Without `pad_to_max_length` a row is as wide as its samples, rounded up to 16 (or
    `dataset_kwargs.pad_seq_length_to_mult`), and never wider than the pack size. Where 16 does not divide by the multiple
    the topology needs, the first row whose width does not divide stops the run; full rows have the pack size and are
    fine. Samples that are padded to a multiple of 16 themselves are safe: the rounding then changes nothing.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=12 launcher=script
    model: {seq_length: 4092, context_parallel_size: 3, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    train: {global_batch_size: 12}
    dataset:
      seq_length: 4092
      offline_packing_specs: {packed_sequence_size: 4092, pad_seq_to_mult: 6}
      dataset_kwargs: {pad_to_max_length: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=12 launcher=script
    model: {seq_length: 4092, context_parallel_size: 3, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    train: {global_batch_size: 12}
    dataset:
      seq_length: 4092
      offline_packing_specs: {packed_sequence_size: 4092, pad_seq_to_mult: 6}
      dataset_kwargs: {pad_to_max_length: true}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset.collate_fn`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset.collate_fn`
    """

    code, slug = "ALN108", "align/dynamic-width-16"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline:
            return
        needed = needed_multiple(run)
        if needed.value == 1 or fixed_width(run):
            return
        rounding = count(run, "dataset.dataset_kwargs.pad_seq_length_to_mult") or ROW_ROUNDING
        own = pad_multiple(run)
        if rounding < 1 or own is None or own < 1:
            return
        if dynamic_width_aligned(rounding, formulas.lcm(own, needed.value), needed.value):
            return  # once the samples are aligned (align/pad-seq-to-mult-cp), so are the rows
        yield self.finding(
            run,
            CRASH_STEP if cp_size(run) > 1 else CRASH_STEP.as_warning(),
            KWARGS_WIDTH if run.wrote(KWARGS_WIDTH) else PACK_SIZE,
            f"rows of dynamic width are rounded up to {rounding} tokens, which is no multiple of {needed.value}",
            why=f"{needed.because} = {needed.value}. The run stops at the first row whose width does not divide.",
            related=(CP, TP, SP),
            fix=self._fix(run, needed.value),
        )

    @staticmethod
    def _fix(run: Run, needed: int) -> Fix:
        width = pack_size(run)
        title = f"{FIXED} with a pack size that divides by {needed}"
        fits = width is not None and width > 0 and width % needed == 0
        return Fix(
            f"{title} (rows rounded to {aligned_rounding(needed)} would do as well)",
            set_to(run, (KWARGS_WIDTH, True)) if fits else (),
        )


class Fp8Width(Rule):
    """Under FP8 a rank's share of the row must be a whole number of blocks.

    The row is split over context parallel ranks (and tensor parallel ranks under sequence parallel) before it meets an
    FP8 layer. Every such layer asserts that its tokens divide by 8; MXFP8 needs 32. On Hopper the product that gives a
    trained weight's gradient also wants 16. Blockwise scaling works in blocks of 128 tokens. A fixed width that does not
    divide stops the first step; a dynamic width is rounded to 16 over the whole row, so one rank's share may not divide.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: bf16_with_mxfp8_mixed
    model: {seq_length: 4112, context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {seq_length: 4112, offline_packing_specs: {packed_sequence_size: 4112, pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: bf16_with_mxfp8_mixed
    model: {seq_length: 4096, context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {seq_length: 4096, offline_packing_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `assert_dim_for_fp8_exec`, `CanonicalizeGemmInput`; Megatron-Core `fp8_utils.py`,
      `get_fp8_align_size`
    """

    code, slug = "ALN116", "align/fp8-width"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        fp8 = fp8_in_effect(run)
        if fp8 is None:
            return
        offline = run.offline
        if not offline and not packs_in_batch(run):
            return
        unit = width_unit(run)
        if offline and fixed_width(run):
            yield from self._fixed(run, fp8, unit)
            return
        own = (pad_multiple(run) if offline else needed_multiple(run).value) or 0
        rounding = count(run, "dataset.dataset_kwargs.pad_seq_length_to_mult") or ROW_ROUNDING if offline else own
        for block, outcome, needs in self._levels(run, fp8):
            needed = formulas.Derived(block * unit.value, f"{block} x {unit.because}")
            if own < 1 or rounding < 1 or dynamic_width_aligned(rounding, own, needed.value) or outcome is WASTE:
                continue
            yield self.finding(
                run,
                outcome.as_warning() if outcome.severity == "error" else outcome,
                fp8.key,
                f"{needs} {needed.value}; dynamic rows are "
                + (f"rounded up to {rounding} tokens" if rounding > 1 else "as wide as their samples"),
                why=f"{needed.because} = {needed.value}: a rank's share of a row must be whole blocks of {block} tokens.",
                related=(CP, TP, SP, IN_BATCH),
                fix=Fix(f"{FIXED} with a width that divides by {needed.value}", set_to(run, (KWARGS_WIDTH, True)))
                if offline
                else Fix("BF16 for in-batch packing, whose rows are as wide as their samples happen to be"),
            )
            return

    @staticmethod
    def _levels(run: Run, fp8: Fp8) -> Iterator[tuple[int, Outcome, str]]:
        """What a share must divide by, the hardest demand first: tokens, what happens else, how it is said."""
        if fp8.recipe == "mxfp8":
            yield fp8.block, CRASH_STEP, "MXFP8 needs row widths that divide by"
            return
        yield FP8_TOKENS, CRASH_STEP, "FP8 needs row widths that divide by"
        if run.maybe("peft") is None:
            yield FP8_BLOCK, CRASH_STEP.as_info(), "FP8 gradients of weights need, on Hopper, row widths that divide by"
        if fp8.block > FP8_BLOCK:
            yield fp8.block, WASTE, "blockwise FP8 wants row widths that divide by"

    def _fixed(self, run: Run, fp8: Fp8, unit: formulas.Derived) -> Iterator[Finding]:
        width = pack_size(run)
        if width is None or width <= 0:
            return
        for block, outcome, needs in self._levels(run, fp8):
            needed = formulas.Derived(block * unit.value, f"{block} x {unit.because}")
            if width % needed.value == 0:
                continue
            yield self.finding(
                run,
                outcome,
                width_key(run),
                f"{needs} {needed.value}, found {width:,}",
                why=f"{needed.because} = {needed.value}: "
                + (
                    "values are scaled in blocks of that many tokens, and an incomplete block is handled apart."
                    if outcome is WASTE
                    else "Transformer Engine refuses a rank's share that is no whole number of blocks."
                ),
                related=(fp8.key, CP, TP, SP),
                fix=Fix(f"a width of {nearest(width, formulas.lcm(fp8.block * unit.value, needed_multiple(run).value))}"),
            )
            return


RULES: tuple[Rule, ...] = (
    WidthTpSp(),
    PackSizeMultiple(),
    DynamicWidth16(),
    Fp8Width(),
)
