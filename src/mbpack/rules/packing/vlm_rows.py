"""Rows of multimodal runs: how wide a pack may get, and what pipeline parallelism makes of unpacked rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import Unknown
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import DERIVED, Finding, Rule
from mbpack.rules.lookup import VLM_KINDS

PP, MODEL_SEQ = "model.pipeline_model_parallel_size", "model.seq_length"


class InBatchRowLength(Rule):
    """In-batch packing stops at a row that is longer than dataset.seq_length, empty, or not padded on the right.

    Whether such rows exist depends on the data. Up to 0.5 nothing checks it.

    ## Upstream
    - 0.6, 0.7: `data/packing/in_batch.py`, `build_mcore_thd_sequence_batch_from_rows`
    """

    code, slug = "VLM101", "vlm/inbatch-row-length"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterable[Finding]:
        if run.in_batch and run.dataset in COLLATING:
            length = run.maybe("dataset.seq_length")
            limit = f" {length}" if length is not None else ""
            raise Unknown("data", ("data",), f"a row longer than dataset.seq_length{limit} stops the run")
        return ()


class PpStaticUnpacked(Rule):
    """Unpacked multimodal rows are padded or cut to model.seq_length under pipeline parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: false}
    model: {pipeline_model_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: false}
    model: {pipeline_model_parallel_size: 1}
    ```

    ## Upstream
    - 0.3 to 0.5: `training/vlm_step.py`, `get_batch`
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate` sets `dataset.pad_to_max_length`
    """

    code, slug = "VLM102", "vlm/pp-static-unpacked"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.pp <= 1 or run.dataset not in VLM_KINDS or run.packed:
            return
        yield self.finding(
            run,
            DERIVED,
            PP,
            f"with pipeline parallel {run.pp} every unpacked row is padded or cut to one length",
            why="Pipeline stages exchange tensors of one fixed shape: model.seq_length.",
            related=(MODEL_SEQ,),
        )


RULES: tuple[Rule, ...] = (
    InBatchRowLength(),
    PpStaticUnpacked(),
)
