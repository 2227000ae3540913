"""What carries loss in packed rows, and what silently does not."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.artifacts import FULL_MASK
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R07
from mbpack.rules.base import NOTE, SILENT, Finding, Fix, Rule, set_to
from mbpack.rules.packs.lookup import KWARGS, PATHS, PREPROCESSING, WARN_NOTE, WARN_SILENT, answers_only, prepares
from mbpack.rules.packs.shards import plural, scanned

LOAD = "checkpoint.load"


class EosInputMasked(Rule):
    """0.7 no longer hides end-of-sequence inputs from the loss.

    Up to 0.6 a position whose input is the end-of-sequence token never counts, also where that token ends a turn of a
    chat. From 0.7 on the mask of the packs decides alone, so that a run continued with 0.7 shows another loss.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {load: runs/before}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {load: runs/before}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset.collate_fn`
    - 0.6: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset.collate_fn`
    """

    code, slug = "LOS101", "loss/eos-input-masked"
    notes_only = True
    releases = (R07, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(LOAD) or not run.is_set(LOAD) or run.complete or not prepares(run):
            return
        yield self.finding(
            run,
            NOTE,
            LOAD,
            "if this checkpoint is from 0.6 or earlier, the loss will not be comparable",
            why="Up to 0.6 positions with the end-of-sequence token as input carry no loss; 0.7 lets the packs decide.",
        )


class PaddingRows(Rule):
    """Up to 0.5, filling the last batch repeats rows with loss when max_train_samples is set.

    An incomplete last batch is filled with negative indices, which stand for rows without loss. `max_train_samples`
    makes a shuffled mapping, and the index goes through it before anybody asks whether it is negative.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {max_train_samples: 1000, drop_last: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {max_train_samples: 1000, drop_last: true}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset.__getitem__`
    - 0.4, 0.5: `data/datasets/packed_parquet.py`, `GPTSFTPackedParquetDataset.__getitem__`
    """

    code, slug = "LOS102", "loss/padding-rows"
    releases = (R03, R05)

    def check(self, run: Run) -> Iterator[Finding]:
        key, drop = "dataset.max_train_samples", "dataset.drop_last"
        if not prepares(run) or run.value(drop, True) is not False or not run.is_set(key):
            return
        if run.value("dataset.dataloader_type") != "batch":
            return
        yield self.finding(
            run,
            SILENT,
            drop,
            "the last batch is filled with real rows that carry loss once more",
            why="max_train_samples maps the negative index of a filling row to a real row before its loss is removed.",
            related=(key,),
            fix=Fix("drop_last: true (the incomplete batch is left out), or 0.6", set_to(run, (drop, True))),
        )


class MaskDensity(Rule):
    """Packs in which nearly everything carries loss were not made for answers only.

    A chat template without generation markers leaves no trace of where an answer starts; in 0.3 and 0.4 the mask then
    falls back to the whole conversation, later releases refuse to pack. The loss looks good, and the model learns to write
    prompts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, lengths: {4096: 100}, supervised: 409200}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, lengths: {4096: 100}, supervised: 120000}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Upstream
    - 0.3, 0.4: `data/datasets/utils.py`, `_chat_preprocess` (all ones); 0.5 raises there
    - 0.6, 0.7: `data/datasets/utils.py` infers the markers of known templates or raises
    """

    code, slug = "LOS103", "loss/mask-density"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not answers_only(run):
            return
        for seen, found in scanned(run):
            density = found.density
            if density is not None and density > FULL_MASK:
                yield self.finding(
                    run,
                    WARN_SILENT,
                    PATHS[seen.split],
                    f"{density:.2%} of the tokens in the {seen.split} packs carry loss, although only answers should",
                    why="A mask made from answers leaves the prompts out. "
                    + (
                        "A chat template without generation markers falls back to all tokens here."
                        if run.release <= R04
                        else "Packs of 0.3 and 0.4 look like this where the chat template has no generation markers."
                    ),
                    related=(PREPROCESSING, f"{KWARGS}.answer_only_loss"),
                    fix=Fix("a chat template with generation markers, and new packs"),
                )


class ZeroLossRows(Rule):
    """Packed rows without a single token that carries loss train nothing.

    They cost a step's time. If a whole global batch is like that, loss per token divides by zero: NaN, the sooner the
    more context parallel ranks share a row.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, lengths: {4096: 100}, supervised: 5000, rows_without_loss: 3}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, lengths: {4096: 100}, supervised: 5000}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/losses.py`, `masked_next_token_loss`
    """

    code, slug = "LOS104", "loss/zero-loss-rows"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        for seen, found in scanned(run):
            if found.rows_without_loss:
                yield self.finding(
                    run,
                    WARN_NOTE,
                    PATHS[seen.split],
                    f"{plural(found.rows_without_loss, 'row')} of {found.rows:,} {seen.split} packs carry no loss",
                    why="They train nothing; with loss per token a global batch of such rows gives NaN.",
                    related=("model.calculate_per_token_loss",),
                    fix=Fix("filter such samples before packing"),
                )


RULES: tuple[Rule, ...] = (
    EosInputMasked(),
    PaddingRows(),
    MaskDensity(),
    ZeroLossRows(),
)
