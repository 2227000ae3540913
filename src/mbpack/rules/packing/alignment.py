"""The padding multiple of packed samples against the topology."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import (
    EVAL_CP,
    PAD_MULT,
    TRAIN_PACKS,
    count,
    cp_size,
    eval_cp_size,
    likely_multiple,
    multiple_named,
    needed_multiple,
    packs_given,
    pad_multiple,
    tp_size,
)
from mbpack.config.run import Run
from mbpack.config.settings import Origin, Unknown, WrongKind
from mbpack.facts.attention import GATED_DELTA_NET, has_own_attention
from mbpack.facts.formulas import Derived
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import (
    CRASH_STEP,
    LAUNCHER_OVERRIDES,
    LAUNCHER_SETS,
    NOTE,
    SILENT,
    WASTE,
    Finding,
    Fix,
    Outcome,
    Rule,
    set_to,
    words,
)
from mbpack.rules.packs.lookup import forgets_multiple

CP, TP, SP = "model.context_parallel_size", "model.tensor_model_parallel_size", "model.sequence_parallel"
VARIANT = "model.experimental_attention_variant"
REBUILD = "rebuild the packed data (its directory name carries the multiple)"


def topology(run: Run) -> str:
    """The parallel sizes a multiple follows from, as a message names them."""
    text = f"CP {run.cp}"
    tp = run.maybe(TP, 1)
    split = run.maybe(SP, False) and isinstance(tp, int) and tp > 1
    return f"{text} with TP {tp} + sequence parallel" if split else text


def _sizes(because: str) -> tuple[str, ...]:
    """The keys whose sizes a derivation speaks of."""
    more = ((TP, "TP"), (SP, "TP"), (EVAL_CP, "eval CP"))
    return (CP, *(key for key, word in more if word in because))


def by_launcher(run: Run) -> Outcome:
    """What it means that ``run_recipe.py`` writes the multiple itself."""
    return LAUNCHER_OVERRIDES if run.wrote(PAD_MULT) else LAUNCHER_SETS


def another_multiple(run: Run, needed: Derived, title: str, safe: bool = False, any_number: bool = False) -> Fix:
    """Sets the multiple; where the release would forget it on the way to the packs, only a later one helps.

    ``any_number``: what is wrong is that there is no usable number, so without context parallelism 1 will do.
    """
    try:
        forgotten = needed.value > 1 and forgets_multiple(run)
    except (Unknown, WrongKind):
        forgotten = False
    if not forgotten:
        return Fix(title, set_to(run, (PAD_MULT, needed.value)), safe)
    if any_number and cp_size(run) == 1:
        return Fix("pad_seq_to_mult: 1", set_to(run, (PAD_MULT, 1)), safe)
    return Fix(f"Megatron-Bridge 0.5.1 or later: {run.patch} does not hand pad_seq_to_mult {needed.value} to parquet packs")


class PadSeqToMultCp(Rule):
    """Context parallelism needs every packed sample padded to a multiple of 2*CP.

    Each sample is cut into 2*CP pieces, of which a rank takes two. A sample that does not divide is rounded down: its
    last tokens are dropped or end up on the wrong rank, positions shift, and the usual report is a NaN loss on every
    rank. Nothing checks it. The multiple that also suits sequence parallel is lcm(2*CP, CP*TP); packs that are on disk
    keep the multiple they were built with. `run_recipe.py` (0.6 and later) sets the multiple, but cannot rebuild packs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 1}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.5: `training/gpt_step.py`, `_partition_packed_batch_for_cp`
    - 0.6, 0.7: `training/utils/packed_seq_utils.py`, `get_thd_cp_partition_indices`
    - 0.6, 0.7: `scripts/training/recipe_runner.py`, `sync_offline_packing_alignment`
    """

    code, slug = "ALN101", "align/pad-seq-to-mult-cp"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or cp_size(run) <= 1:
            return
        scanned = list(self._rows(run))
        if scanned:
            yield from scanned
            return
        own = count(run, PAD_MULT)
        if own is None or own <= 0 or own % (2 * cp_size(run)) == 0:
            return
        needed = likely_multiple(run)
        if run.repaired:
            yield from self._repaired(run, own)
            return
        yield self.finding(
            run,
            self._outcome(run),
            PAD_MULT,
            f"pad_seq_to_mult {own} leaves packed samples unaligned for {topology(run)}",
            why=f"{needed.because} = {needed.value}. Context parallelism cuts every packed sample into 2*CP pieces;"
            " one that"
            " does not divide loses its last tokens or shifts them to another rank (NaN loss is the usual sign).",
            related=_sizes(needed.because),
            fix=another_multiple(run, needed, f"pad_seq_to_mult: {needed.value}, and {REBUILD}"),
            caret=f"needs a multiple of {needed.value}",
        )

    def _rows(self, run: Run) -> Iterator[Finding]:
        """What the packed rows on disk hold, whatever the configuration says about them."""
        cut = 2 * cp_size(run)
        for packs in run.evidence.packs.values():
            found = packs.statistics
            wrong = found.misaligned(cut) if found is not None else 0
            if found is None or not wrong:
                continue
            examples = words(found.misaligned_examples(cut))
            yield self.finding(
                run,
                self._outcome(run),
                TRAIN_PACKS if run.wrote(TRAIN_PACKS) else PAD_MULT,
                f"{wrong:,} of {found.samples:,} packed {packs.split} samples have lengths that are no multiple of"
                f" 2*CP = {cut} ({examples} for example)",
                why="Context parallelism cuts every packed sample into 2*CP pieces; their last tokens are dropped or"
                " shifted to"
                " another rank. The multiple in the configuration does not change packs that are on disk.",
                related=(CP, PAD_MULT),
                fix=Fix(f"rebuild the packs with pad_seq_to_mult: {likely_multiple(run).value}"),
            )

    def _repaired(self, run: Run, own: int) -> Iterator[Finding]:
        needed, path = needed_multiple(run), packs_given(run)
        if path is not None and multiple_named(path) is None:
            yield self.finding(
                run,
                SILENT.as_warning(),
                TRAIN_PACKS,
                f"run_recipe.py sets pad_seq_to_mult to {pad_multiple(run)} but cannot rebuild these packs",
                why=f"If they were built with the multiple {own}, their samples stay unaligned: {needed.because} ="
                f" {needed.value}.",
                related=(PAD_MULT, CP),
                fix=Fix(f"rebuild the packs with pad_seq_to_mult: {needed.value} and write that value here"),
            )
            return
        yield self.finding(
            run,
            by_launcher(run),
            PAD_MULT,
            f"run_recipe.py sets pad_seq_to_mult to {pad_multiple(run)} for {topology(run)}",
            why=f"{needed.because} = {needed.value}",
            related=(CP,),
            fix=Fix(f"pad_seq_to_mult: {needed.value}", set_to(run, (PAD_MULT, needed.value)), safe=True)
            if run.wrote(PAD_MULT)
            else None,
        )

    @staticmethod
    def _outcome(run: Run) -> Outcome:
        """A layer that tests the lengths itself turns the silent damage into a crash."""
        variant = run.maybe(VARIANT)
        if (variant == "dsa" and run.release >= R06) or (variant == GATED_DELTA_NET and run.release >= R05):
            return CRASH_STEP
        fusion = run.settings.peek("model.apply_rope_fusion")
        unfused = fusion is not None and fusion.value is False and fusion.origin is not Origin.DEFAULT
        return CRASH_STEP if unfused and run.maybe("model.position_embedding_type") in ("rope", "yarn") else SILENT


class PadSeqToMultSp(Rule):
    """The documented multiple also covers sequence parallel; less may still be right.

    Sequence parallel splits the whole row over TP, so only the row width must divide by CP*TP. A multiple per sample of
    lcm(2*CP, CP*TP) guarantees that and is what upstream documents from 0.5 on; runs with a smaller one train cleanly as
    long as the width divides (`align/width-tp-sp`). Without context parallelism the larger multiple buys nothing and
    pads every sample.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model:
      context_parallel_size: 2
      tensor_model_parallel_size: 4
      sequence_parallel: true
      calculate_per_token_loss: true
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model:
      context_parallel_size: 2
      tensor_model_parallel_size: 4
      sequence_parallel: true
      calculate_per_token_loss: true
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate` (`collate_padding_multiple`, the same formula)
    """

    code, slug = "ALN102", "align/pad-seq-to-mult-sp"
    routine = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or not run.sp:
            return
        own = count(run, PAD_MULT)
        cp, tp = cp_size(run), tp_size(run)
        if own is None or own <= 0 or own % (cp * tp) == 0 or (cp > 1 and own % (2 * cp)):
            return
        needed = likely_multiple(run)
        if run.repaired:
            outcome, message = (
                by_launcher(run),
                f"run_recipe.py sets pad_seq_to_mult to {pad_multiple(run)} for {topology(run)}",
            )
        else:
            outcome = NOTE
            message = f"pad_seq_to_mult {own} is below the documented multiple {needed.value} for {topology(run)}"
        yield self.finding(
            run,
            outcome,
            PAD_MULT,
            message,
            why=f"{needed.because} = {needed.value}. Sequence parallel itself only needs the row width to divide by"
            " CP*TP ="
            f" {cp * tp}; padding every sample to {needed.value} guarantees it.",
            related=(TP, SP, CP),
            fix=another_multiple(run, needed, f"pad_seq_to_mult: {needed.value}, and {REBUILD}") if cp > 1 else None,
        )


class EvalCp(Rule):
    """Packs must also be aligned for the evaluation's context parallel size, should evaluation really use it.

    The key alone changes no evaluation: it reserves shapes that fit, and whoever wants evaluation on other context
    parallel groups makes them in a script. Offline packs are built once and read by training and evaluation alike, so
    with such groups the multiple must cover both sizes; nothing checks it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dist: {eval_context_parallel_size: 4}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dist: {eval_context_parallel_size: 4}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.5 to 0.7: `training/config.py`, `DistributedInitConfig.eval_context_parallel_size`
    - 0.6, 0.7: `scripts/training/recipe_runner.py`, `sync_offline_packing_alignment` (takes it into the multiple)
    """

    code, slug = "CPL103", "cp/eval-cp"
    releases = (R05, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        size = eval_cp_size(run)
        if size is None or size <= 1 or size == run.cp or not run.offline:
            return
        own = count(run, PAD_MULT)
        if own is None or own <= 0 or own % (2 * size) == 0:
            return
        needed = likely_multiple(run)
        yield self.finding(
            run,
            by_launcher(run) if run.repaired else NOTE,
            PAD_MULT,
            f"run_recipe.py sets pad_seq_to_mult to {pad_multiple(run)} for evaluation with CP {size}"
            if run.repaired
            else f"pad_seq_to_mult {own} leaves packed samples unaligned for evaluation with CP {size}",
            why=f"{needed.because} = {needed.value}. The key itself changes no evaluation; a script that evaluates on groups"
            f" of {size} ranks cuts every sample into {2 * size} pieces.",
            related=(EVAL_CP, CP),
            fix=another_multiple(run, needed, f"pad_seq_to_mult: {needed.value}, and {REBUILD}"),
            caret=f"needs a multiple of {needed.value}",
        )


class PadMultWasted(Rule):
    """Without context or sequence parallelism padding between samples only costs speed.

    The padding itself is computed, and with padded and logical boundaries apart Transformer Engine before 2.18 compares
    them on the GPU in every layer, which waits for it. The kernel is the same on Hopper and Blackwell, where the fused one
    is preferred anyway. Packs that were built once for several topologies are a good reason for it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {pad_seq_to_mult: 1}}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/packed_seq_utils.py`, `get_packed_seq_params`
    - 0.3 to 0.7: Transformer Engine `get_attention_backend`; before 2.18 `DotProductAttention.forward` (`torch.equal`)
    """

    code, slug = "ALN111", "align/pad-mult-wasted"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline:
            return
        own = count(run, PAD_MULT)
        needed = needed_multiple(run)
        if own is None or own <= 1 or needed.value != 1 or has_own_attention(run.maybe(VARIANT)):
            return  # a model with its own attention has its own reasons
        yield self.finding(
            run,
            WASTE.as_info(),
            PAD_MULT,
            f"pad_seq_to_mult {own} pads samples although this topology needs no alignment",
            why=f"{needed.because}. The padding is computed all the same.",
            related=(CP, TP),
            fix=Fix(f"pad_seq_to_mult: 1, and {REBUILD}", set_to(run, (PAD_MULT, 1))),
        )


RULES: tuple[Rule, ...] = (
    PadSeqToMultCp(),
    PadSeqToMultSp(),
    EvalCp(),
    PadMultWasted(),
)
