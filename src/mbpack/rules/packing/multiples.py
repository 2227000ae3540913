"""Padding multiples that cannot be used, have no effect, or are not enough by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import (
    DATA_SEQ,
    IN_BATCH,
    PAD_MULT,
    count,
    cp_size,
    likely_multiple,
    needed_multiple,
    packs_in_batch,
    pad_multiple,
    sample_limit,
)
from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import ABSENT
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import NIGHTLY, R03, R05, R06, R07
from mbpack.rules.base import CRASH_DATA, CRASH_LATER, CRASH_STEP, Finding, Fix, Outcome, Rule
from mbpack.rules.packing.alignment import CP, SP, TP, another_multiple, by_launcher


class PadMultNone(Rule):
    """pad_seq_to_mult null is accepted at start-up and fails later.

    The code compares it with 1. Up to 0.5 that fails while the samples are tokenised, from 0.6 on when the first row is
    collated. Write 1 for "no padding". `run_recipe.py` (0.6 and later) fills in the multiple.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {pad_seq_to_mult: null}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {pad_seq_to_mult: 1}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `tokenize_dataset`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset.collate_fn`
    """

    code, slug = "ALN109", "align/pad-mult-none"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline or run.specs_plain or run.value(PAD_MULT, ABSENT) is not None:
            return
        if run.repaired:
            outcome, message = by_launcher(run), f"run_recipe.py sets pad_seq_to_mult to {pad_multiple(run)}"
        else:
            outcome = CRASH_DATA if run.release < R06 else CRASH_STEP
            message = "pad_seq_to_mult must be a number; null fails once samples are " + (
                "tokenised" if run.release < R06 else "collated"
            )
        yield self.finding(
            run,
            outcome,
            PAD_MULT,
            message,
            why="The value is compared with 1, which null does not allow (TypeError).",
            fix=self._fix(run),
        )

    @staticmethod
    def _fix(run: Run) -> Fix:
        if any(run.settings.peek(key) is None for key in (CP, TP, SP)):
            return Fix("pad_seq_to_mult: 1 (2*CP or more with context parallelism)")
        needed = likely_multiple(run)
        return another_multiple(run, needed, f"pad_seq_to_mult: {needed}", safe=True, any_number=True)


class NearPackSizeSample(Rule):
    """Up to 0.5 a sample cut at an unaligned seq_length stays unaligned.

    Samples are padded to the multiple but never beyond dataset.seq_length. If that length is no multiple itself, the
    longest samples keep it as it is and the context parallel split or the position kernel meets an odd length. From 0.6
    on the limit is rounded down first. Whether it happens depends on the data, so this is a likely failure.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 4098, context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {seq_length: 4098, packed_sequence_specs: {packed_sequence_size: 4100, pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 4096, context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {seq_length: 4096, packed_sequence_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `tokenize_dataset` (`pre_pad_dataset`)
    """

    code, slug = "ALN105", "align/near-pack-size-sample"
    releases = (R03, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline:
            return
        own = count(run, PAD_MULT)
        limit, cut = count(run, DATA_SEQ), 2 * cp_size(run)
        if own is None or own <= 1 or cut == 2 or not limit or limit % cut == 0:
            return
        aligned = limit // cut * cut
        yield self.finding(
            run,
            CRASH_LATER.as_warning(),
            DATA_SEQ,
            f"samples cut at seq_length {limit} are no multiple of 2*CP = {cut} and likely break the packed rows they end up in",
            why=f"Up to 0.5 padding stops at seq_length, which 2*CP = {cut} does not divide.",
            related=(PAD_MULT, CP),
            fix=Fix(f"seq_length: {aligned} (dataset and model), or Megatron-Bridge 0.6"),
        )


class MultLargerThanSeq(Rule):
    """A padding multiple above the sample limit cannot be met.

    The limit of a sample (max_single_sequence_length, else seq_length) is rounded down to the multiple; if nothing is
    left, tokenisation stops.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    model: {seq_length: 512}
    dataset: {seq_length: 512, offline_packing_specs: {packed_sequence_size: 512, pad_seq_to_mult: 1024}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    model: {seq_length: 512}
    dataset: {seq_length: 512, offline_packing_specs: {packed_sequence_size: 512, pad_seq_to_mult: 1}}
    ```

    ## Upstream
    - 0.6, 0.7: `data/packing/offline.py`, `tokenize_dataset`
    """

    code, slug = "ALN112", "align/mult-larger-than-seq"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline:
            return
        multiple = pad_multiple(run)
        if multiple is None or multiple <= 1:
            return
        limit = sample_limit(run)
        if limit is None or limit <= 0 or limit >= multiple:
            return
        yield self.finding(
            run,
            CRASH_DATA,
            PAD_MULT,
            f"pad_seq_to_mult {multiple} is larger than the longest sample allowed, {limit} tokens",
            why="The sample limit is rounded down to the multiple, which leaves nothing; tokenisation stops with an error.",
            related=(DATA_SEQ, f"{SPECS}.max_single_sequence_length"),
            fix=Fix(f"a multiple of at most {limit}, or a longer seq_length"),
        )


class UserInBatchMultiple(Rule):
    """in_batch_packing_pad_to_multiple_of is derived; what a file says is replaced.

    With in-batch packing on, the start-up writes lcm(2*CP, CP*TP with sequence parallel) there. Without it the key has
    no effect.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {in_batch_packing_pad_to_multiple_of: 4}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "ALN119", "align/user-inbatch-multiple-overwritten"
    releases = (R06, NIGHTLY)
    reports_unknown = False

    KEY = "dataset.in_batch_packing_pad_to_multiple_of"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(self.KEY) or self._foreign(run):
            return
        own = count(run, self.KEY)
        if own is None or own <= 0:
            return
        on, needed = packs_in_batch(run), needed_multiple(run)
        if run.complete and (not on or own == needed.value):
            return  # a saved configuration holds what the start-up wrote
        yield self.finding(
            run,
            Outcome("info", "ignored" if on else "note", "validate"),
            self.KEY,
            f"the start-up replaces {own} by {needed.value}" if on else "without in-batch packing this multiple has no effect",
            why=f"The multiple is derived from the topology: {needed.because} = {needed.value}." if on else "",
            related=(IN_BATCH, CP),
            fix=Fix("leave the key out"),
        )

    @staticmethod
    def _foreign(run: Run) -> bool:
        return not (run.dataset in COLLATING or (run.dataset is DatasetKind.GPT_SFT and run.release >= R07))


RULES: tuple[Rule, ...] = (
    PadMultNone(),
    NearPackSizeSample(),
    MultLargerThanSeq(),
    UserInBatchMultiple(),
)
