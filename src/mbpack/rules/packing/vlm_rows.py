"""Rows of multimodal runs: how wide a pack may get, and what pipeline parallelism makes of unpacked rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import Unknown
from mbpack.facts.hard_blocks import QWEN3_VL
from mbpack.facts.releases import NIGHTLY, R04, R06
from mbpack.rules.base import DERIVED, WASTE, Finding, Fix, Rule, set_to
from mbpack.rules.lookup import IN_BATCH, VLM_KINDS, is_family, step_of

PP, MODEL_SEQ = "model.pipeline_model_parallel_size", "model.seq_length"
EP = "model.expert_model_parallel_size"


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


class Qwen3VlSavesNothing(Rule):
    """In-batch packing with qwen3_vl_step removes no padding.

    The step pads the rows of a microbatch to the longest (under pipeline or expert parallelism to `model.seq_length`), then
    lays them end to end, padding included. A pack costs what the rows cost before. Steps that pack when rows are
    collated, such as `vlm_step`, take the padding out.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=script step=qwen3_vl_step
    dataset: {enable_in_batch_packing: true, defer_in_batch_packing_to_step: true}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script step=vlm_step
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Upstream
    - 0.4 to 0.7: `models/qwen_vl/qwen3_vl_step.py`, `pack_or_pad_batch_sequences` and its successor
    """

    code, slug = "STP108", "step/qwen3vl-saves-nothing"
    releases = (R04, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.in_batch or run.dataset not in VLM_KINDS or not is_family(run, QWEN3_VL) or step_of(run) != "qwen3_vl_step":
            return
        static = run.pp > 1 or run.ep > 1
        yield self.finding(
            run,
            WASTE if run.wrote(IN_BATCH) else WASTE.as_info(),
            IN_BATCH,
            "in-batch packing with qwen3_vl_step removes no padding",
            why=f"The step pads every row to {'model.seq_length' if static else 'the longest of the microbatch'} before it joins"
            " them.",
            related=(PP, EP),
            fix=Fix("rows of like length in a microbatch, or packing off", set_to(run, (IN_BATCH, False))),
        )


RULES: tuple[Rule, ...] = (
    InBatchRowLength(),
    PpStaticUnpacked(),
    Qwen3VlSavesNothing(),
)
