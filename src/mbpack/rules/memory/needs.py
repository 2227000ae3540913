"""Whether a run fits the GPUs it is said to run on; nothing is said where nobody named the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.gpus import Gpu, find_gpu
from mbpack.rules.base import NOTE, Finding, Fix, Outcome, Rule

if TYPE_CHECKING:
    from mbpack.memory.reading import Described
    from mbpack.memory.verdict import Estimate

TP, LENGTH, ROWS = "model.tensor_model_parallel_size", "model.seq_length", "dataset.seq_length"
FUSION, IMPL = "model.cross_entropy_loss_fusion", "model.cross_entropy_fusion_impl"
ACTIVATION = "model.bias_activation_fusion"
#: Never an error: no start-up check refuses a run that is too large.
NO_MEMORY = Outcome("warning", "crash", "first-step")
_GIB = 2**30
_LARGE_LOSS = 4 * _GIB  #: bytes above which the loss is worth a note


class Needed(NamedTuple):
    """A run's estimate on its GPU."""

    described: Described
    estimate: Estimate
    gpu: Gpu


def needed(run: Run) -> Needed | None:
    """The estimate of a run whose GPU somebody named; None where nobody did, or not how many.

    Raises:
        Unknown: the model is not modelled, or an essential size is not known.
    """
    gpu = find_gpu(run.context.gpu or "")
    if gpu is None or run.context.sources.get("gpu") == "recipe" or run.context.gpus is None:
        return None
    if "memory needs" not in run.memo:
        run.memo["memory needs"] = _estimated(run, gpu)
    found = run.memo["memory needs"]
    if isinstance(found, Unknown):
        raise found
    assert isinstance(found, Needed)
    return found


def _estimated(run: Run, gpu: Gpu) -> Needed | Unknown:
    from mbpack.memory.reading import describe
    from mbpack.memory.sizes import NotModelled
    from mbpack.memory.verdict import judge

    try:
        described = describe(run)
    except NotModelled as why:
        return Unknown("memory", (), str(why))
    return Needed(described, judge(described.setup, gpu, described.unsure), gpu)


def gib(size: float) -> str:
    """Bytes as GiB."""
    return f"{size / _GIB:.1f} GiB"


def _where(run: Run) -> str:
    for key in (ROWS, LENGTH):
        if run.wrote(key):
            return key
    return TP


class DoesNotFit(Rule):
    """The run fits the memory of its GPUs.

    Asked where `--gpu`, a directive or the project names the GPU. A note where it likely does not fit, a warning where even the
    low end of the range exceeds the GPU; never an error. `mbpack fit` shows the breakdown and what would fit.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 gpu=h100-80gb launcher=script
    model: {seq_length: 131072}
    dataset: {seq_length: 131072, offline_packing_specs: {packed_sequence_size: 131072}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 gpu=h100-80gb launcher=script
    model: {seq_length: 8192}
    dataset: {seq_length: 8192, offline_packing_specs: {packed_sequence_size: 8192}}
    ```

    ## Upstream
    - not checked; the formulas are those of `mbpack fit`, measured on real layers and compared with recorded runs
    """

    code, slug = "MEM101", "mem/does-not-fit"

    def check(self, run: Run) -> Iterator[Finding]:
        found = needed(run)
        if found is None:
            return
        from mbpack.memory.verdict import Verdict  # only where a GPU is named

        if found.estimate.verdict not in (Verdict.NOT, Verdict.UNLIKELY) or _states(found) > _room(found):
            return
        estimate, setup = found.estimate, found.described.setup
        certain = estimate.verdict is Verdict.NOT
        wide = f"; the range is wide for {'; '.join(found.described.unsure)}" if found.described.unsure else ""
        yield self.finding(
            run,
            NO_MEMORY if certain else NOTE,
            _where(run),
            f"{estimate.verdict.value} on {setup.gpus} x {found.gpu.name}: about {gib(estimate.likely)} of "
            f"{found.gpu.usable} GiB each ({estimate.low / _GIB:.0f} to {estimate.high / _GIB:.0f})",
            why=f"{gib(estimate.allocated)} are allocated at the peak of pipeline stage {estimate.stage.index}, the first step "
            f"included {gib(estimate.first_step)}: Adam makes its moments there, so that memory may end at the second{wide}.",
            fix=Fix("see `mbpack fit` for what each setting saves and for topologies that fit"),
        )


def _room(found: Needed) -> float:
    return found.gpu.usable * _GIB


def _states(found: Needed) -> float:
    rows = found.estimate.stage.rows
    return sum(rows.get(term, 0) for term in ("weights", "weight copies", "gradients", "optimizer"))


class StatesDoNotFit(Rule):
    """Weights, gradients and optimizer of a rank fit its GPU, before any token is kept.

    The counts are exact. Shorter rows and recompute change nothing here: it takes more GPUs, more tensor, pipeline or expert
    parallelism, smaller states (Adam moments in BF16, the optimizer on the host), or an adapter.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_2gpu_h100_bf16_config gpus=2 gpu=h100-80gb launcher=script
    model: {seq_length: 4096}
    dataset: {seq_length: 4096}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_2gpu_h100_bf16_config gpus=16 gpu=h100-80gb launcher=script
    model: {seq_length: 4096}
    dataset: {seq_length: 4096}
    ```

    ## Upstream
    - not checked; Megatron-Core `optimizer/distrib_optimizer.py` divides master weights and moments
    """

    code, slug = "MEM104", "mem/states-do-not-fit"

    def check(self, run: Run) -> Iterator[Finding]:
        found = needed(run)
        if found is None or _states(found) <= _room(found):
            return
        setup, rows = found.described.setup, found.estimate.stage.rows
        parts = " + ".join(f"{term} {gib(rows[term])}" for term in ("weights", "gradients", "optimizer") if rows.get(term))
        yield self.finding(
            run,
            NO_MEMORY,
            TP,
            f"the states alone are {gib(_states(found))} a rank, {found.gpu.name} has {found.gpu.usable} GiB",
            why=f"{parts} on {setup.gpus} GPUs with TP {setup.tp}, PP {setup.pp}, EP {setup.ep}; nothing of it depends on "
            "the length of rows. Adam makes its moments at the first step, so that the second may be the one that fails.",
            fix=Fix("more GPUs, or larger TP, PP or EP; `mbpack fit` names topologies that fit"),
        )


class FusedLossPeak(Rule):
    """The fused native loss peaks at 10 bytes a logit; where logits are many, `te` or the unfused loss need less.

    Asked where a file chooses it, with rows long enough to matter. Up to Transformer Engine 2.17 `te` works in the logits' own
    2 bytes; 2.18, which the development tree pins, needs 6.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, sequence_parallel: false, seq_length: 32768, cross_entropy_loss_fusion: true, cross_entropy_fusion_impl: native}
    dataset: {seq_length: 32768, offline_packing_specs: {packed_sequence_size: 32768}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, sequence_parallel: false, seq_length: 32768, cross_entropy_loss_fusion: true, cross_entropy_fusion_impl: te}
    dataset: {seq_length: 32768, offline_packing_specs: {packed_sequence_size: 32768}}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `fusions/fused_cross_entropy.py`; the peak is measured, 1.711 against 1.330 GiB in a recorded test
    """

    code, slug = "MEM103", "mem/fused-loss-peak"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not (run.wrote(FUSION) or run.wrote(IMPL)):
            found = needed(run)
            if found is None or found.estimate.fits:
                return
        yield from self._note(run)

    def _note(self, run: Run) -> Iterator[Finding]:
        from mbpack.memory.ledger import logits
        from mbpack.memory.setup import Entropy
        from mbpack.rules.memory.recompute_effects import setup_of

        setup = setup_of(run)
        if setup is None or setup.entropy is not Entropy.FUSED:
            return
        many = logits(setup)
        if 10 * many < _LARGE_LOSS:
            return
        te = 2 if setup.te < (2, 18) else 6
        yield self.finding(
            run,
            NOTE,
            IMPL if run.wrote(IMPL) else FUSION,
            f"the fused native loss peaks at 10 bytes a logit: {gib(10 * many)} a rank",
            why=f"{setup.tokens:,.0f} tokens x {setup.vocab:,} / TP {setup.tp} = {many:,.0f} logits a rank; unfused 6 bytes "
            f"({gib(6 * many)}), te {te} ({gib(te * many)}).",
            related=(FUSION, IMPL),
            fix=Fix("cross_entropy_fusion_impl: te" if te < 6 else "cross_entropy_loss_fusion: false"),
        )


class UnfusedActivation(Rule):
    """A run that may not fit keeps the pieces of a gated activation that one kernel could work on.

    `bias_activation_fusion: true` gives back about a quarter of a layer with SiLU and a gate, at no cost. Asked where the GPU is named
    and the run does not fit for certain.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 gpu=h100-80gb launcher=script
    model: {seq_length: 65536}
    dataset: {seq_length: 65536, offline_packing_specs: {packed_sequence_size: 65536}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 gpu=h100-80gb launcher=script
    model: {seq_length: 65536, bias_activation_fusion: true}
    dataset: {seq_length: 65536, offline_packing_specs: {packed_sequence_size: 65536}}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer/mlp.py`, `fusions/fused_bias_swiglu.py`; counted on real layers
    """

    code, slug = "MEM106", "mem/unfused-activation"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        found = needed(run)
        if found is None or found.estimate.fits:
            return
        rows = found.estimate.stage.rows
        lost = rows.get("unfused activation", 0) + rows.get("experts' unfused activation", 0)
        shape = found.described.setup.shape
        if lost < _GIB or not shape.gated_linear_unit or shape.activation != "silu":
            return
        yield self.finding(
            run,
            NOTE,
            ACTIVATION,
            f"the unfused activation keeps {gib(lost)} that bias_activation_fusion: true gives back",
            why="Unfused, SiLU's output and the linear half are kept beside their common input; the fused kernel keeps the input alone.",
            fix=Fix("bias_activation_fusion: true"),
        )


RULES: tuple[Rule, ...] = (DoesNotFit(), StatesDoNotFit(), FusedLossPeak(), UnfusedActivation())
