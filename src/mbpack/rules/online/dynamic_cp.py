"""Dynamic context parallelism (nightly): a scheduler of global-batch packing."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config import in_effect
from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.releases import NIGHTLY, R03
from mbpack.rules.base import (
    DERIVED,
    IGNORED,
    REJECTED,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    is_number,
    set_to,
)
from mbpack.rules.lookup import foreign

DYNAMIC, LEAST = "model.dynamic_context_parallel", "model.min_dynamic_context_parallel_size"
PER_RANK, SEQ = "model.max_seqlen_per_dp_cp_rank", "dataset.seq_length"
CP, TP, SWITCH = (
    "model.context_parallel_size",
    "model.tensor_model_parallel_size",
    "dataset.enable_global_batch_packing",
)
DECENTRALIZED, OLD_NAME = "dist.use_decentralized_pg", "model.hybrid_context_parallel"


def pool(run: Run) -> int:
    """The ranks that dynamic context parallelism deals samples to: DP x CP."""
    return in_effect.size(run.dp, "data_parallel_size") * in_effect.cp_size(run)


class DynamicRule(RejectingRule):
    """A rule about runs with dynamic context parallelism."""

    releases = (NIGHTLY, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dynamic_cp:
            yield from self.refuse(run)

    def refuse(self, run: Run) -> Iterator[Finding]:
        """Yield what such a run is refused for."""
        raise NotImplementedError


class PoolPowerOfTwo(DynamicRule):
    """Dynamic context parallelism needs DP x CP to be a power of two, 2 or more.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=6 launcher=script
    dataset: {enable_global_batch_packing: true}
    model:
      dynamic_context_parallel: true
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model:
      dynamic_context_parallel: true
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
    ```

    ## Upstream
    - nightly: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "DCP101", "dcp/pool-power-of-two"

    def refuse(self, run: Run) -> Iterator[Finding]:
        size = pool(run)
        if size < 2 or not formulas.is_power_of_two(size):
            yield self.finding(
                run,
                REJECTED,
                CP if run.wrote(CP) else DYNAMIC,
                f"dynamic context parallelism needs a power of two of ranks, found DP {run.dp} x CP {run.cp} = {size}",
                why="Samples are dealt to 1, 2, 4, ... ranks of one pool.",
                related=(DYNAMIC, CP),
                fix=Fix("another number of GPUs or context parallel size"),
            )


class DynamicMinSize(DynamicRule):
    """min_dynamic_context_parallel_size must be a power of two within the pool.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true, min_dynamic_context_parallel_size: 3}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model:
      dynamic_context_parallel: true
      min_dynamic_context_parallel_size: 2
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
    ```

    ## Upstream
    - nightly: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "DCP102", "dcp/min-size"

    def refuse(self, run: Run) -> Iterator[Finding]:
        least = run.number(LEAST, 1)
        if least is None:
            return  # cfg/null-number
        fix = Fix("a power of two up to DP x CP")
        if not isinstance(least, int) or not formulas.is_power_of_two(least):
            message = f"min_dynamic_context_parallel_size must be a power of two, found {least}"
            yield self.finding(run, REJECTED, LEAST, message, related=(DYNAMIC,), fix=fix)
        elif least > pool(run):
            message = f"min_dynamic_context_parallel_size {least} is larger than the pool DP x CP = {pool(run)}"
            yield self.finding(run, REJECTED, LEAST, message, related=(DYNAMIC, CP), fix=fix)


class NoDecentralizedPg(DynamicRule):
    """Dynamic context parallelism excludes decentralized process groups.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true}
    dist: {use_decentralized_pg: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true}
    dist: {use_decentralized_pg: false}
    ```

    ## Upstream
    - nightly: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "DCP103", "dcp/no-decentralized-pg"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if run.flag(DECENTRALIZED):
            yield self.finding(
                run,
                REJECTED,
                DECENTRALIZED,
                "dynamic context parallelism excludes decentralized process groups",
                related=(DYNAMIC,),
                fix=Fix("use_decentralized_pg: false", set_to(run, (DECENTRALIZED, False))),
            )


class DynamicCapacity(DynamicRule):
    """The whole pool must hold the longest sample: DP x CP x max_seqlen_per_dp_cp_rank >= dataset.seq_length.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=2 launcher=script
    dataset: {enable_global_batch_packing: true, seq_length: 32768}
    model:
      dynamic_context_parallel: true
      max_seqlen_per_dp_cp_rank: 4096
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true, seq_length: 32768}
    model:
      dynamic_context_parallel: true
      seq_length: 32768
      max_seqlen_per_dp_cp_rank: 4096
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
    ```

    ## Upstream
    - nightly: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "DCP104", "dcp/capacity"

    def refuse(self, run: Run) -> Iterator[Finding]:
        per_rank, length = run.number(PER_RANK), run.number(SEQ) or run.number("model.seq_length")
        if not is_number(per_rank) or not is_number(length):
            return
        size = pool(run)
        if per_rank * size < length:
            need = -(-length // size)
            yield self.finding(
                run,
                REJECTED,
                PER_RANK,
                f"the pool holds {per_rank * size} tokens, but samples may have {length}",
                why=f"max_seqlen_per_dp_cp_rank {per_rank} x DP {run.dp} x CP {run.cp}.",
                related=(SEQ, CP),
                fix=Fix(f"max_seqlen_per_dp_cp_rank: {need}", set_to(run, (PER_RANK, need))),
            )


class DynamicAlignment(Rule):
    """Dynamic context parallelism pads every sample for the whole pool.

    The multiple is 2 x DP x CP, with sequence parallelism also a multiple of CP x TP; DP is that of the training also for an
    evaluation with its own context parallel size. The documentation asks for DP x CP x TP with sequence parallelism, which is
    more from TP 4 on.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=16 launcher=script
    dataset: {enable_global_batch_packing: true}
    model:
      dynamic_context_parallel: true
      tensor_model_parallel_size: 2
      sequence_parallel: true
      pipeline_model_parallel_size: 1
      context_parallel_size: 4
    dist: {eval_context_parallel_size: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=16 launcher=script
    dataset: {enable_global_batch_packing: true}
    model:
      dynamic_context_parallel: false
      tensor_model_parallel_size: 2
      sequence_parallel: true
      pipeline_model_parallel_size: 1
      context_parallel_size: 4
    dist: {eval_context_parallel_size: null}
    ```

    ## Upstream
    - nightly: `training/config.py`, `ConfigContainer.validate`, and its documentation of dynamic context parallelism
    """

    code, slug = "DCP105", "dcp/alignment"
    releases = (NIGHTLY, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.dynamic_cp:
            return
        dp, tp, cp = in_effect.size(run.dp, "data_parallel_size"), in_effect.tp_size(run), in_effect.cp_size(run)
        multiple, documented = run.online_multiple, formulas.documented_dynamic_multiple(dp, tp, cp, run.sp)
        message = f"every sample is padded to a multiple of {multiple}"
        if multiple.value % documented == 0:
            yield self.finding(run, DERIVED, DYNAMIC, message, related=(CP, TP))
            return
        length = run.maybe(SEQ)
        short = isinstance(length, int) and length % documented != 0
        yield self.finding(
            run,
            DERIVED.as_warning() if short else DERIVED,
            DYNAMIC,
            f"{message}; the documentation says {documented}",
            why=f"The code of September 2026 counts CP*TP, the documentation DP*CP*TP = {dp}*{cp}*{tp}. A length that divides by "
            "both is right in any case.",
            related=(CP, TP, SEQ),
            fix=Fix(f"seq_length: a multiple of {documented}") if short else None,
        )


class NotBothNames(RejectingRule):
    """hybrid_context_parallel is the old name of dynamic_context_parallel; both together are refused.

    Megatron-Core's dev branch, which dynamic context parallelism needs, switches the new one on where the old one is.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true, hybrid_context_parallel: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true, hybrid_context_parallel: false}
    ```

    ## Upstream
    - nightly: Megatron-Core's dev branch, `model_parallel_config.py`, `ModelParallelConfig.__post_init__`
    """

    code, slug = "DCP108", "new/dcp-hybrid-both"
    topic = "dcp"
    releases = (NIGHTLY, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dynamic_cp and run.flag(OLD_NAME):
            yield self.finding(
                run,
                REJECTED,
                OLD_NAME,
                "hybrid_context_parallel and dynamic_context_parallel are both on",
                why="They are the old and the new name of one setting.",
                related=(DYNAMIC,),
                fix=Fix("hybrid_context_parallel: false", set_to(run, (OLD_NAME, False)), safe=True),
            )


class DynamicNeedsOnline(RejectingRule):
    """Dynamic context parallelism is a scheduler of global-batch packing, on nightly only.

    Before nightly the key is unknown: an override is ignored, a complete file refused.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: false}
    model: {dynamic_context_parallel: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true}
    ```

    ## Upstream
    - nightly: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "DCP106", "dcp/needs-gbp"
    releases = (R03, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release < NIGHTLY:
            written = foreign(run, DYNAMIC)
            if written is not None and written.value and not run.complete:  # the loader refuses it in a complete file
                yield self.finding(
                    run,
                    IGNORED,
                    DYNAMIC,
                    f"{run.release} has no dynamic context parallelism",
                    why="The key is unknown there, so the override is ignored.",
                    fix=Fix("remove it, or use a nightly Megatron-Bridge"),
                    setting=written,
                    on_key=True,
                )
            return
        if run.flag(DYNAMIC) and not run.flag(SWITCH):
            yield self.finding(
                run,
                REJECTED,
                DYNAMIC,
                "dynamic context parallelism needs global-batch packing",
                why="It is one of the schedulers that pack a global batch.",
                related=(SWITCH,),
                fix=Fix("enable_global_batch_packing: true", set_to(run, (SWITCH, True))),
            )


RULES: tuple[Rule, ...] = (
    PoolPowerOfTwo(),
    DynamicMinSize(),
    NoDecentralizedPg(),
    DynamicCapacity(),
    DynamicAlignment(),
    NotBothNames(),
    DynamicNeedsOnline(),
)
