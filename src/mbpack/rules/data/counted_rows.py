"""What counted rows say about a run: how often they are seen, and which of them are cut."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import DATA_SEQ, sample_limit
from mbpack.config.run import Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import EPOCHS, ITERS
from mbpack.rules.base import NOTE, Finding, Fix, Outcome, Rule
from mbpack.rules.packs.lookup import is_chat, prepares, ready

GBS, SAMPLES = "train.global_batch_size", "train.train_samples"
#: Passes over the data from which on fine-tuning is likely longer than meant, and share of rows cut that deserves a warning.
MANY_EPOCHS, MANY_CUT = 20, 0.01


class EpochsOfPacks(Rule):
    """Steps are counted in packed rows: how often the data are seen follows from their number.

    A pack holds many samples, so that a number of steps chosen for unpacked rows passes over packed data many times. With the
    packs on disk (`--inspect`) or counted lengths (`--lengths`) the number of passes is known.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}}
    train: {train_iters: 1000, global_batch_size: 8}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {train_iters: 1000, global_batch_size: 8}
    ```

    ## Upstream
    - all releases: `data/loaders.py`, `get_train_valid_test_num_samples` (train_iters x global_batch_size rows)
    """

    code, slug = "SCH107", "sched/epochs-of-packs"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or run.maybe(EPOCHS) is not None:
            return
        packs, exact = self._packs(run)
        steps, batch = run.maybe(ITERS), run.gbs
        if not packs or not isinstance(steps, int) or not isinstance(batch, int) or steps <= 0 or batch <= 0:
            return
        passes = steps * batch / packs
        many = passes >= MANY_EPOCHS
        yield self.finding(
            run,
            NOTE.as_warning() if many and run.wrote(ITERS) else NOTE,
            ITERS if run.wrote(ITERS) else GBS,
            f"{steps:,} steps of {batch} rows pass {passes:.1f} times over {'' if exact else 'about '}{packs:,} packs",
            why=f"{steps:,} x {batch} / {packs:,} = {passes:.2f} epochs."
            + (" Steps that were chosen for unpacked rows are many more for packed ones." if many else ""),
            related=(GBS,),
            fix=Fix(f"train_iters: {max(packs * 3 // batch, 1)} for three epochs") if many else None,
        )

    @staticmethod
    def _packs(run: Run) -> tuple[int | None, bool]:
        """Packs of the training split as found or planned, and whether the number is exact."""
        seen = run.evidence.packs.get("training")
        if seen is not None and not seen.missing and seen.rows:
            return seen.rows, True
        planned = run.evidence.planned
        return (planned.packs, planned.exact) if planned is not None else (None, True)


class CutRows(Rule):
    """Prompt-completion rows longer than the sample limit are cut.

    What goes is the field that `dataset_kwargs.truncation_field` names (the prompt by default), from the end that
    `truncation_method` says; once that field is used up, the answer goes too. Nothing is printed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {lengths: {500: 900, 9000: 100}}
    dataset: {dataset_kwargs: {chat: false}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {lengths: {500: 900, 600: 100}}
    dataset: {dataset_kwargs: {chat: false}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTDataset._process_example`
    - 0.6, 0.7: `data/datasets/gpt_sft.py`, the same
    """

    code, slug = "DAT149", "data/rows-cut"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        lengths = run.evidence.raw_lengths
        if lengths is None or run.dataset is not DatasetKind.GPT_SFT or is_chat(run) or (run.offline and ready(run)):
            return
        limit = sample_limit(run)
        if limit is None or limit <= 0:
            return
        long = {length - 1: rows for length, rows in lengths.items() if length - 1 > limit}
        if not long:
            return
        rows, all_rows = sum(long.values()), sum(lengths.values())
        gone = sum((length - limit) * count for length, count in long.items())
        tokens = sum(max(length - 1, 0) * count for length, count in lengths.items())
        yield self.finding(
            run,
            Outcome("warning" if rows / all_rows >= MANY_CUT else "info", "silent", "data"),
            DATA_SEQ,
            f"{rows:,} of {all_rows:,} rows are longer than {limit:,} tokens and are cut",
            why=f"That takes away {gone / tokens:.1%} of the tokens: of the prompt first, then of the answer. Nothing is printed.",
            related=("dataset.dataset_kwargs.truncation_field",),
            fix=Fix(f"seq_length of at least {max(long)}, or shorter rows"),
        )


RULES: tuple[Rule, ...] = (EpochsOfPacks(), CutRows())
