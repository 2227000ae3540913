"""Switches of Megatron-Core that Bridge's training loop never serves, and overlaps that need one width of rows."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import MODEL_SEQ, count, fixed_width, pack_size, packs_in_batch
from mbpack.config.run import Run
from mbpack.facts.modes import OFFLINE
from mbpack.facts.releases import R03, R07
from mbpack.rules.base import CRASH_STEP, IGNORED, Finding, Fix, Rule, set_to
from mbpack.rules.lookup import packing_key

HYBRID_CP, PP, CP = "model.hybrid_context_parallel", "model.pipeline_model_parallel_size", "model.context_parallel_size"
OVERLAP, TP = "comm_overlap.tp_comm_overlap", "model.tensor_model_parallel_size"
KWARGS_WIDTH = "dataset.dataset_kwargs.pad_to_max_length"


class HybridSchedule(Rule):
    """hybrid_context_parallel needs a data iterator that Bridge never builds.

    Megatron-Core's hybrid schedule asks the iterator for samples together with a plan of which ranks share them. The
    training loop hands over ordinary batches, and the first step stops; with pipeline parallelism another schedule
    runs, which does not know the switch. For context parallelism in two levels there is `cp_comm_type: a2a+p2p` with
    `hierarchical_context_parallel_sizes`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model: {hybrid_context_parallel: true, max_seqlen_per_dp_cp_rank: 4096, context_parallel_size: 4, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model: {context_parallel_size: 4, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `pipeline_parallel/schedules.py`, `forward_backward_no_pipelining`;
      `pipeline_parallel/hybrid_cp_schedule.py`, `hybrid_context_parallel_forward_backward`
    """

    code, slug = "CPL116", "cp/hybrid-schedule"
    releases = (R03, R07)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(HYBRID_CP) or not run.flag(HYBRID_CP):
            return
        stages = run.pp > 1
        yield self.finding(
            run,
            IGNORED.as_warning() if stages else CRASH_STEP,
            HYBRID_CP,
            f"hybrid_context_parallel is not read with PP {run.pp}"
            if stages
            else "hybrid_context_parallel needs a data iterator that Bridge does not build",
            why="Only the schedule without pipeline stages knows the switch."
            if stages
            else "Megatron-Core's hybrid schedule asks for samples with a plan of who shares them; the first step stops.",
            related=(CP, PP),
            fix=Fix(
                "hybrid_context_parallel: false (two levels of ranks: cp_comm_type a2a+p2p with"
                " hierarchical_context_parallel_sizes, unpacked)",
                set_to(run, (HYBRID_CP, False)),
            ),
        )


class TpOverlapWidth(Rule):
    """Overlapped tensor parallel communication needs rows that are exactly model.seq_length wide.

    Its buffers are made once, for `model.seq_length` x micro batch / CP tokens. Transformer Engine refuses a tensor of
    another size: rows of dynamic width, rows packed in the batch, packs of another size.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 8, sequence_parallel: true}
    comm_overlap: {_target_: megatron.bridge.training.comm_overlap.CommOverlapConfig, tp_comm_overlap: true}
    dataset: {dataset_kwargs: {pad_to_max_length: false}, offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 8, sequence_parallel: true}
    comm_overlap: {_target_: megatron.bridge.training.comm_overlap.CommOverlapConfig, tp_comm_overlap: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}, offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/initialize.py`, `_initialize_tp_communicators`; Transformer Engine `comm_gemm_overlap.cpp`
    """

    code, slug = "EPL102", "overlap/tp-row-width"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        key = self._switch(run)
        if key is None or run.tp <= 1 or not run.sp or not run.packed:
            return
        length = count(run, MODEL_SEQ)
        if run.mode is OFFLINE and fixed_width(run):
            width = pack_size(run)
            if width is None or length is None or width == length:
                return
            reason = f"the packs are {width:,} wide and model.seq_length is {length:,}"
        elif run.mode is OFFLINE or packs_in_batch(run):
            reason = "the width of a row varies"
        else:
            return
        fixable = run.mode is OFFLINE and pack_size(run) == length
        yield self.finding(
            run,
            CRASH_STEP,
            key,
            f"tp_comm_overlap needs rows of model.seq_length tokens, and {reason}",
            why="The buffers of the overlap are made once for that length; a tensor of another size stops the step.",
            related=(MODEL_SEQ, packing_key(run), TP),
            fix=Fix("dataset_kwargs.pad_to_max_length: true", set_to(run, (KWARGS_WIDTH, True)))
            if fixable
            else Fix("tp_comm_overlap: false", set_to(run, (key, False))),
        )

    @staticmethod
    def _switch(run: Run) -> str | None:
        """The key that switches the overlap on: the section decides where there is one."""
        if run.value("comm_overlap") is not None:
            return OVERLAP if run.value(OVERLAP) is True else None
        key = "model.tp_comm_overlap"
        return key if run.maybe(key) is True else None


RULES: tuple[Rule, ...] = (HybridSchedule(), TpOverlapWidth())
