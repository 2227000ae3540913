"""Boundary arrays of packed rows in a captured iteration."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import PAD_MULT, pad_multiple
from mbpack.config.run import Run
from mbpack.facts.releases import R03, R05
from mbpack.rules.base import CRASH_LATER, Finding, Fix, Rule
from mbpack.rules.packs.lookup import PAD_CU, forgets_multiple, prepares


class UnpaddedBoundaries(Rule):
    """Up to 0.5 pad_cu_seqlens pads only one of two boundary arrays.

    With a padding multiple above 1 a row carries padded and logical boundaries. `pad_cu_seqlens` brings the padded ones to
    one length; the logical ones keep the number of their samples. A captured iteration copies every array into buffers of the
    first step's size, and stops at the first row with another number of samples. 0.6 pads both.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: local, cuda_graph_scope: full_iteration, use_te_rng_tracker: true}
    rng: {te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: false}
    dataset: {dataset_kwargs: {pad_to_max_length: true}, packed_sequence_specs: {pad_cu_seqlens: true, pad_seq_to_mult: 2}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: local, cuda_graph_scope: full_iteration, use_te_rng_tracker: true}
    rng: {te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: false}
    dataset: {dataset_kwargs: {pad_to_max_length: true}, packed_sequence_specs: {pad_cu_seqlens: true, pad_seq_to_mult: 1}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset.collate_fn` (`cu_seqlens_unpadded`)
    """

    code, slug = "GRA119", "graph/unpadded-boundaries"
    releases = (R03, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not run.flag(PAD_CU) or not run.graphs.full_iteration or forgets_multiple(run):
            return
        multiple = pad_multiple(run)
        if multiple is None or multiple <= 1:
            return
        yield self.finding(
            run,
            CRASH_LATER,
            PAD_MULT,
            f"with pad_seq_to_mult {multiple} the logical boundaries keep another length in every row",
            why="pad_cu_seqlens pads the other array only; the step that copies the logical ones into the graph's buffers stops.",
            related=(PAD_CU, "model.cuda_graph_scope"),
            fix=Fix("Megatron-Bridge 0.6, which pads both, or a multiple of 1 without context parallelism"),
        )


RULES: tuple[Rule, ...] = (UnpaddedBoundaries(),)
