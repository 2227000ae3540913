"""What pipeline stages exchange and in which number format, and communication that overlaps with the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.hard_blocks import MADE_AS_CORE
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import REJECTED, REJECTED_LOAD, Finding, Fix, RejectingRule, Rule, built_at, in_yaml, set_to
from mbpack.rules.stated import stated, touched

PP, VPP = "model.pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size"
PRECISION, COMM = "mixed_precision", "comm_overlap"
DTYPES = ("params_dtype", "pipeline_dtype")
MODEL_PIPELINE = "model.pipeline_dtype"
WARMUP, P2P, BATCHED = "model.overlap_p2p_comm_warmup_flush", "overlap_p2p_comm", "batch_p2p_comm"
REUSE, STEP = "reuse_grad_buf_for_mxfp8_param_ag", "overlap_param_gather_with_optimizer_step"
DISTRIBUTED = "ddp.use_distributed_optimizer"


class PipelineDtype(RejectingRule):
    """Pipeline stages need a number format for what they exchange.

    `pipeline_dtype` stands for it; null, it is that of the parameters. A `mixed_precision` object writes both of its own over the
    model's, null included. The names, such as `bf16_mixed`, set both.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: {_target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig, bf16: true}
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: bf16_mixed
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 2}
    ```

    ## Upstream
    - all releases: Megatron-Core `model_parallel_config.py`, `ModelParallelConfig.__post_init__`; `training/mixed_precision.py`,
      `update_config_with_precision_overrides`
    """

    code, slug = "PPL111", "pp/dtype-missing"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete and run.settings.class_at("model") in MADE_AS_CORE and run.pp > 1 and not run.is_set(MODEL_PIPELINE):
            yield self.finding(
                run,
                REJECTED_LOAD,
                MODEL_PIPELINE,
                f"pipeline parallel {run.pp} needs a pipeline_dtype",
                why=f"{run.model_class} is checked as it is made, before anything else could fill the value in.",
                related=(PP,),
                fix=Fix(f"{MODEL_PIPELINE}: torch.bfloat16", set_to(run, (MODEL_PIPELINE, "torch.bfloat16"))),
                station="load",
                offset=built_at(run, "model"),
            )
            return
        owners = (PRECISION, "model")
        if not touched(run, PP, PRECISION, *(f"{owner}.{name}" for owner in owners for name in DTYPES)):
            return
        if run.pp <= 1:
            return
        held = run.value(PRECISION)
        if isinstance(held, str):
            return
        owner, recipe = "model" if held is None else PRECISION, run.settings.recipe
        if held is not None and not run.wrote(PRECISION) and recipe is not None and not recipe.complete:
            return  # the recipe's own object sets them, whether or not its data say so
        if any(run.value(f"{owner}.{name}", False) is not None for name in DTYPES):
            return
        params, pipeline = (f"{owner}.{name}" for name in DTYPES)
        yield self.finding(
            run,
            REJECTED,
            pipeline if run.wrote(pipeline) or not run.wrote(owner) else owner,
            f"pipeline parallel {run.pp} needs a pipeline_dtype; {owner}.pipeline_dtype and params_dtype are null",
            why="The stages exchange tensors of that number format.",
            related=(PP, params),
            fix=Fix(f"{owner}.pipeline_dtype: torch.bfloat16", set_to(run, (pipeline, "torch.bfloat16"))),
        )


class WarmupFlush(RejectingRule):
    """Overlapped exchange in the warm-up and the flush of the pipeline needs overlapped, unbatched exchange at all.

    `overlap_p2p_comm_warmup_flush` goes with `overlap_p2p_comm: true` and `batch_p2p_comm: false`. A `comm_overlap` section sets both
    itself: so with a virtual pipeline, and otherwise without overlap.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {overlap_p2p_comm_warmup_flush: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    comm_overlap: null
    model: {overlap_p2p_comm_warmup_flush: true, overlap_p2p_comm: true, batch_p2p_comm: false}
    ```

    ## Upstream
    - all releases: Megatron-Core `model_parallel_config.py`, `ModelParallelConfig.__post_init__`; `training/comm_overlap.py`,
      `_get_model_comm_overlap_cfgs`
    """

    code, slug = "PPL112", "pp/warmup-flush"

    def check(self, run: Run) -> Iterator[Finding]:
        sizes = (PP, VPP)
        if not touched(run, WARMUP, COMM, *sizes, *(f"{owner}.{name}" for owner in ("model", COMM) for name in (P2P, BATCHED))):
            return
        if not run.flag(WARMUP):
            return
        owner, overlapped, batched = self._exchange(run)
        if overlapped and not batched:
            return
        yield self.finding(
            run,
            REJECTED,
            WARMUP,
            "overlap_p2p_comm_warmup_flush needs overlap_p2p_comm without batch_p2p_comm, found "
            f"{in_yaml(bool(overlapped))} and {in_yaml(bool(batched))}",
            why="Only stages that exchange single tensors beside their computation can do so in the warm-up and the flush.",
            related=(f"{owner}.{P2P}", f"{owner}.{BATCHED}", *sizes),
            fix=Fix("overlap_p2p_comm_warmup_flush: false", set_to(run, (WARMUP, False)), safe=True),
        )

    @staticmethod
    def _exchange(run: Run) -> tuple[str, object, object]:
        """Which section decides, and whether stages exchange beside their computation and in batches."""
        if run.value(COMM) is None:
            return "model", stated(run, f"model.{P2P}"), stated(run, f"model.{BATCHED}")
        virtual = run.pp > 1 and run.vpp is not None and run.vpp > 1
        own = (run.value(f"{COMM}.{P2P}"), run.value(f"{COMM}.{BATCHED}"))
        return COMM, virtual if own[0] is None else own[0], (run.pp > 1 and not virtual) if own[1] is None else own[1]


class StepOverlap(RejectingRule):
    """Parameters are gathered during the optimizer's step or into the gradient buffer, not both.

    `mixed_precision` and, with the distributed optimizer, `comm_overlap` write their switches over those of `optimizer`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    comm_overlap: null
    optimizer: {reuse_grad_buf_for_mxfp8_param_ag: true, overlap_param_gather_with_optimizer_step: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    comm_overlap: null
    optimizer: {reuse_grad_buf_for_mxfp8_param_ag: false, overlap_param_gather_with_optimizer_step: true}
    ```

    ## Upstream
    - 0.6, 0.7: Megatron-Core 0.19 `optimizer/optimizer_config.py`, `OptimizerConfig.__post_init__`
    """

    code, slug = "PPL113", "pp/step-overlap"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        owners = ("optimizer", COMM)
        if not touched(
            run,
            PRECISION,
            f"{PRECISION}.{REUSE}",
            f"optimizer.{REUSE}",
            COMM,
            *(f"{owner}.{STEP}" for owner in owners),
            DISTRIBUTED,
        ):
            return
        if not self._reuses(run):
            return
        overlapped = f"optimizer.{STEP}"
        if run.value(COMM) is not None and run.flag(DISTRIBUTED):
            overlapped = f"{COMM}.{STEP}"
        if not run.flag(overlapped):
            return
        yield self.finding(
            run,
            REJECTED,
            overlapped,
            f"{STEP} does not work with {REUSE}",
            why="The gathered MXFP8 parameters take the place of gradients that the step still reads.",
            related=(PRECISION, f"{PRECISION}.{REUSE}", f"optimizer.{REUSE}"),
            fix=Fix(f"{overlapped}: false", set_to(run, (overlapped, False)), safe=True),
        )

    @staticmethod
    def _reuses(run: Run) -> bool:
        """Whether gathered parameters share the buffer of the gradients, after mixed precision is applied."""
        held = run.value(PRECISION)
        if isinstance(held, str):
            return bool((run.settings.schema.mixed_precision(held) or {}).get(REUSE))
        return run.flag(f"optimizer.{REUSE}" if held is None else f"{PRECISION}.{REUSE}")


RULES: tuple[Rule, ...] = (PipelineDtype(), WarmupFlush(), StepOverlap())
