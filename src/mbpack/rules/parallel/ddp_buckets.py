"""Buckets and accumulation of the gradients that the data parallel ranks exchange."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.precision import SECTION, applied
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.releases import NIGHTLY, R04, R05
from mbpack.rules.base import REJECTED, REJECTED_LOAD, Finding, Fix, Outcome, RejectingRule, Rule, built_at, in_yaml, set_to

COUNT, SIZE = "ddp.num_buckets", "ddp.bucket_size"
OVERLAP, DISTRIBUTED = "comm_overlap", "ddp.use_distributed_optimizer"
PATTERNS, FP32 = "ddp.param_name_patterns_for_fp32_local_accumulation", "ddp.grad_reduce_in_fp32"


def _where(run: Run, slug: str) -> tuple[Outcome, str]:
    """When the DDP settings are checked: their class decides.

    Megatron-Bridge's class is finalised in its turn. Recipes hold Megatron-Core's, which is checked only when every section
    is built once more; in a complete file it is checked as soon as it is built.
    """
    target = run.settings.target_at("ddp")
    core = target is not None and str(target.value).startswith("megatron.core.")
    if run.complete:
        return (REJECTED_LOAD, "load") if core else (REJECTED, slug)
    return (REJECTED, f"{slug}@again") if core or target is None else (REJECTED, slug)


class Buckets(RejectingRule):
    """The gradient buckets have a number or a size, and the number is positive.

    With a distributed optimizer and more than one data parallel rank, `comm_overlap` sets the size.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    ddp: {num_buckets: 4, bucket_size: 40000000}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    ddp: {num_buckets: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    ddp: {num_buckets: 4, bucket_size: null}
    ```

    ## Upstream
    - 0.5 to 0.7: Megatron-Core `distributed_data_parallel_config.py`, `DistributedDataParallelConfig.__post_init__`;
      `training/comm_overlap.py`, `CommOverlapConfig.setup`
    """

    code, slug = "DDP101", "ddp/buckets"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.is_set(COUNT):
            return
        if run.is_set(SIZE):
            message = f"num_buckets and bucket_size are both set: {run.value(COUNT)} buckets of {run.value(SIZE)} parameters"
            yield self._refuse(run, message, Fix("num_buckets or bucket_size: null", set_to(run, (SIZE, None))))
            return
        count = run.number(COUNT)
        if count <= 0:
            yield self._refuse(
                run, f"num_buckets must be positive, found {count}", Fix("num_buckets: null", set_to(run, (COUNT, None)))
            )
        elif self._overlap_sets_size(run):
            outcome, station = _where(run, self.slug)
            late = station == "load"  # the object can be built; the overlap is set up after the load
            yield self.finding(
                run,
                REJECTED if late else outcome,
                COUNT,
                f"num_buckets is {count} and comm_overlap sets bucket_size as well",
                why="With a distributed optimizer, communication overlap gives the gradient buckets a size.",
                related=(OVERLAP, DISTRIBUTED),
                fix=Fix("num_buckets: null", set_to(run, (COUNT, None))),
                station=f"{self.slug}@again" if late else station,
            )

    @staticmethod
    def _overlap_sets_size(run: Run) -> bool:
        """Whether ``CommOverlapConfig.setup`` writes a size into DDP: its own, or one for more than one data parallel rank."""
        if not isinstance(run.value(OVERLAP), Object) or not run.flag(DISTRIBUTED):
            return False
        return run.is_set(f"{OVERLAP}.bucket_size") or run.dp > 1

    def _refuse(self, run: Run, message: str, fix: Fix) -> Finding:
        outcome, station = _where(run, self.slug)
        place = built_at(run, "ddp") if station == "load" else None
        return self.finding(run, outcome, COUNT, message, related=(SIZE,), fix=fix, station=station, offset=place)


class Fp32Patterns(RejectingRule):
    """Parameters whose gradients are to be accumulated in FP32 are named only where the others are not.

    `param_name_patterns_for_fp32_local_accumulation` excludes `grad_reduce_in_fp32`, which `mixed_precision` writes over that
    of `ddp`: `bf16_mixed` switches it on.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    ddp: {param_name_patterns_for_fp32_local_accumulation: [all], grad_reduce_in_fp32: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    ddp: {param_name_patterns_for_fp32_local_accumulation: [all], grad_reduce_in_fp32: false}
    ```

    ## Upstream
    - 0.4 to 0.7: Megatron-Core `distributed_data_parallel_config.py`, `DistributedDataParallelConfig.__post_init__`
    """

    code, slug = "DDP102", "ddp/fp32-patterns"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        patterns: Any = run.value(PATTERNS, ())
        if not isinstance(patterns, (list, tuple, str, Object)):
            shown = in_yaml(patterns)
            yield self._refuse(run, f"the patterns must be a list, found {shown}", ())
        elif patterns and applied(run, "ddp", "grad_reduce_in_fp32"):
            switch = f"{SECTION}.grad_reduce_in_fp32" if run.is_set(SECTION) else FP32
            yield self._refuse(run, "FP32 patterns are for runs without grad_reduce_in_fp32, which is on", (switch, SECTION))

    def _refuse(self, run: Run, message: str, related: tuple[str, ...]) -> Finding:
        outcome, station = _where(run, self.slug)
        if station == "load" and related and not run.flag(FP32):
            outcome, station = REJECTED, f"{self.slug}@again"  # mixed precision switches it on only after the load
        return self.finding(
            run,
            outcome,
            PATTERNS,
            message,
            why="All gradients are accumulated in FP32 already." if related else "The start-up asks for its length.",
            related=related,
            fix=Fix("no patterns: []", set_to(run, (PATTERNS, [])), safe=bool(related)),
            station=station,
            offset=built_at(run, "ddp") if station == "load" else None,
        )


RULES: tuple[Rule, ...] = (Buckets(), Fp32Patterns())
