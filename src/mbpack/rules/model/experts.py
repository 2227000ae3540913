"""Mixture of experts against packing: dispatchers, pad tokens, expert capacity, tensor parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config import in_effect
from mbpack.config.run import Run
from mbpack.facts.hard_blocks import HYBRIDEP_CHUNK, HYBRIDEP_TOKEN_ALIGNMENT
from mbpack.facts.modes import IN_BATCH, OFFLINE
from mbpack.facts.releases import R03, R05, R06
from mbpack.rules.base import CRASH_STEP, NOTE, WASTE, Finding, Fix, Outcome, Rule, set_to
from mbpack.rules.lookup import row_width, rows_have_one_width, sample_multiple

BACKEND, DISPATCHER = "model.moe_flex_dispatcher_backend", "model.moe_token_dispatcher_type"
EP, TP, SP = "model.expert_model_parallel_size", "model.tensor_model_parallel_size", "model.sequence_parallel"
EXPERTS, CAPACITY = "model.num_moe_experts", "model.moe_expert_capacity_factor"
FIXED = "dataset.dataset_kwargs.pad_to_max_length"
PACK_SIZE = "dataset.offline_packing_specs.packed_sequence_size"


def uses_hybridep(run: Run) -> bool:
    """Whether expert tokens travel through HybridEP between more than one rank."""
    if run.value(BACKEND) != "hybridep" or run.value(DISPATCHER) != "flex":
        return False
    return run.moe and run.ep > 1


class HybridEpUneven(Rule):
    """HybridEP needs the same number of tokens on every rank.

    Packs of different width hang or corrupt memory up to 0.5, or leave some ranks barely trained. From 0.6 on eager
    runs are padded automatically (0.6.0 and 0.7 always, 0.6.2 when packed); with CUDA graphs they are not.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model:
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: hybridep
      expert_model_parallel_size: 8
    dataset: {dataset_kwargs: {pad_to_max_length: false}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model:
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: hybridep
      expert_model_parallel_size: 8
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - 0.6.0, 0.7: `models/transformer_config.py`, `TransformerConfig.finalize`, pads every eager configuration
    - 0.6.2: `training/config.py`, `ConfigContainer.validate`, `_enable_safe_hybridep_dispatch`, packed runs only
    """

    code, slug = "MOE101", "moe/hybridep-uneven"

    def check(self, run: Run) -> Iterator[Finding]:
        if not uses_hybridep(run):
            return
        padded = run.release >= R06 and not run.graphs.enabled
        if padded:
            if run.patch == "0.6.2" and run.mode not in (OFFLINE, IN_BATCH):
                return
            yield self.finding(
                run,
                Outcome("info", "waste", "always"),
                BACKEND,
                "the start-up pads HybridEP inputs to one length on every rank",
                why=f"Eager runs are padded to a multiple of {HYBRIDEP_TOKEN_ALIGNMENT} tokens, which costs some time.",
                related=(DISPATCHER, EP),
            )
            return
        if not run.packed or rows_have_one_width(run):
            return
        outcome = CRASH_STEP if run.release <= R05 else CRASH_STEP.as_warning()
        fix = Fix("dataset_kwargs.pad_to_max_length: true (all rows get the pack width)", set_to(run, (FIXED, True)))
        yield self.finding(
            run,
            outcome,
            BACKEND,
            "HybridEP gets a different number of tokens from every rank: packed rows vary in width",
            why="It expects equal counts: the step hangs, fails, or trains some ranks on almost nothing."
            if run.release <= R05
            else "With CUDA graphs the inputs are not padded, and the counts must be equal.",
            related=(DISPATCHER, EP),
            fix=fix if run.mode is OFFLINE else Fix("a fixed width, or moe_token_dispatcher_type: alltoall"),
        )


class HybridEpWidth(Rule):
    """HybridEP works in chunks of 128 tokens; a row's share on each rank should be a multiple of it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model:
      seq_length: 2080
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: hybridep
      expert_model_parallel_size: 8
    dataset:
      seq_length: 2080
      offline_packing_specs: {packed_sequence_size: 2080}
      dataset_kwargs: {pad_to_max_length: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model:
      seq_length: 2048
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: hybridep
      expert_model_parallel_size: 8
    dataset:
      seq_length: 2048
      offline_packing_specs: {packed_sequence_size: 2048}
      dataset_kwargs: {pad_to_max_length: true}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `fused_a2a.py` and `token_dispatcher.py` (64 in eager runs; 128 is the kernel's chunk)
    """

    code, slug = "MOE102", "moe/hybridep-width"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not uses_hybridep(run) or not run.packed or not rows_have_one_width(run):
            return
        width, ranks = row_width(run), in_effect.width_unit(run)
        if width is None or width % (ranks.value * HYBRIDEP_CHUNK) == 0:
            return
        yield self.finding(
            run,
            NOTE.as_warning() if run.graphs.enabled else NOTE,
            PACK_SIZE if run.mode is OFFLINE else "dataset.seq_length",
            f"{width / ranks.value:g} tokens a rank are no multiple of HybridEP's chunk of {HYBRIDEP_CHUNK}",
            why=f"A row of {width} tokens is split over {ranks.value} rank(s) ({ranks.because}).",
            related=(BACKEND, EP),
            fix=Fix(f"a width that is a multiple of {ranks.value * HYBRIDEP_CHUNK}"),
        )


class PadTokensRouted(Rule):
    """Up to 0.6 pad tokens are routed to experts and count in the auxiliary loss.

    Packs filled to a fixed width, and samples padded to a multiple, hold tokens that carry no loss but take expert
    capacity and shift the load balance. 0.7 masks them.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - 0.7: `training/gpt_step.py` passes a padding mask for offline packs
    """

    code, slug = "MOE103", "moe/pad-tokens-routed"
    routine = True
    releases = (R03, R06)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.moe or not run.packed:
            return
        fixed = rows_have_one_width(run)
        if not fixed and sample_multiple(run) <= 1:
            return
        yield self.finding(
            run,
            WASTE.as_info(),
            FIXED if fixed and run.wrote(FIXED) else EXPERTS,
            f"{run.release} routes pad tokens to experts and counts them in the auxiliary loss",
            why="Rows are filled up to one width." if fixed else "Samples are padded to a multiple.",
            related=(EXPERTS,),
            fix=Fix("good packing efficiency, or Megatron-Bridge 0.7, which masks pad tokens of offline packs"),
        )


class ExpertCapacity(Rule):
    """With a capacity factor pad tokens can push real tokens out of an expert.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_expert_capacity_factor: 1.0}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_expert_capacity_factor: null}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer/moe/router.py` drops tokens above the capacity
    """

    code, slug = "MOE104", "moe/expert-capacity"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        factor = run.number(CAPACITY)
        if factor is None or factor < 0 or not run.moe or not run.packed or not rows_have_one_width(run):
            return
        yield self.finding(
            run,
            NOTE.as_warning(),
            CAPACITY,
            f"with a capacity factor of {factor} pad tokens of full-width packs likely displace real ones",
            why="Pads are routed like real tokens and take places in an expert.",
            related=(EXPERTS,),
            fix=Fix("moe_expert_capacity_factor: null", set_to(run, (CAPACITY, None))),
        )


class TpWithoutSp(Rule):
    """Experts with tensor parallelism need sequence parallelism.

    The start-up accepts it; the expert layer refuses to train.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    model: {num_moe_experts: 8, tensor_model_parallel_size: 2, sequence_parallel: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    model: {num_moe_experts: 8, tensor_model_parallel_size: 2, sequence_parallel: true}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer/moe/moe_layer.py`, `MoELayer.forward`
    """

    code, slug = "MOE105", "moe/tp-without-sp"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.tp <= 1 or run.sp_asked or not run.moe:
            return
        yield self.finding(
            run,
            CRASH_STEP,
            SP if run.wrote(SP) or not run.wrote(TP) else TP,
            f"experts with tensor parallel {run.tp} need sequence_parallel: true",
            why="Megatron-Core's expert layer stops at the first training step without it.",
            related=(TP, SP, EXPERTS),
            fix=Fix("sequence_parallel: true; a row's width must then divide by CP x TP", set_to(run, (SP, True))),
        )


RULES: tuple[Rule, ...] = (
    HybridEpUneven(),
    HybridEpWidth(),
    PadTokensRouted(),
    ExpertCapacity(),
    TpWithoutSp(),
)
