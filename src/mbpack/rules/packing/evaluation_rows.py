"""Evaluation sets against what one evaluation takes."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import R03, R05, R06
from mbpack.rules.base import CRASH_EVAL, Finding, Fix, Rule, set_to
from mbpack.rules.packs.lookup import DO_VALIDATION, PATHS

EVAL_GBS, ITERS, GBS = "validation.eval_global_batch_size", "validation.eval_iters", "train.global_batch_size"
LOADER = "dataset.dataloader_type"


class EvaluationRows(Rule):
    """An evaluation set must fill one evaluation batch.

    The batch dataloader of evaluation drops what does not fill a batch. With fewer rows than one batch nothing is left:
    0.6 stops with an AssertionError at the first evaluation, 0.3 to 0.5 start over without end and hang. From 0.7 on the
    rest of a batch is filled up. Packed rows count, not samples.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}, validation: {rows: 3}}
    train: {global_batch_size: 32}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/t.parquet, packed_val_data_path: packs/v.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}, validation: {rows: 40}}
    train: {global_batch_size: 32}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/t.parquet, packed_val_data_path: packs/v.parquet}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/samplers.py`, `MegatronPretrainingBatchSampler`; `data/loaders.py`, `cyclic_iter`
    - 0.6: `data/samplers.py`, `MegatronPretrainingBatchSampler._active_total_samples`
    """

    code, slug = "GBS107", "gbs/eval-not-enough-rows"
    releases = (R03, R06)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT or run.value(LOADER) != "batch" or not run.flag(DO_VALIDATION):
            return
        if run.maybe(ITERS) == 0:
            return
        rows, what = self._rows(run)
        batch = run.eval_gbs
        if rows is None or not isinstance(batch, int) or rows >= batch or rows <= 0:
            return
        unit = run.eval_mbs * run.eval_dp if isinstance(run.eval_mbs, int) else 0
        fits = rows // unit * unit if unit else 0
        yield self.finding(
            run,
            CRASH_EVAL,
            EVAL_GBS if run.wrote(EVAL_GBS) else GBS,
            f"{rows} validation {what}, but one evaluation batch takes {batch}",
            why="The dataloader drops what does not fill a batch, and nothing is left: "
            + (
                "an AssertionError at the first evaluation."
                if run.release >= R06
                else "the first evaluation starts over without end and the run hangs."
            ),
            related=(EVAL_GBS, PATHS["validation"]),
            fix=self._fix(run, fits),
        )

    @staticmethod
    def _rows(run: Run) -> tuple[int | None, str]:
        """Rows of the validation set and their name; None where nobody counted them."""
        if run.offline:
            seen = run.evidence.packs.get("validation")
            return (None if seen is None or seen.missing else seen.rows), "packs"
        raw = run.evidence.raw_data
        return (raw.validation_lines if raw is not None else None), "rows"

    @staticmethod
    def _fix(run: Run, fits: int) -> Fix:
        if fits and run.release >= R05:
            return Fix(f"eval_global_batch_size: {fits}, or more validation rows", set_to(run, (EVAL_GBS, fits)))
        return Fix("more validation rows, or eval_iters: 0", ())


RULES: tuple[Rule, ...] = (EvaluationRows(),)
