"""Context parallelism: what fine-tuning with it must set, and how its communication is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts import formulas
from mbpack.facts.attention import HIERARCHICAL, P2P
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import CP
from mbpack.facts.releases import R04, R05, R06
from mbpack.rules.base import (
    CRASH_DATA,
    LAUNCHER_OVERRIDES,
    LAUNCHER_SETS,
    REJECTED,
    SILENT,
    Finding,
    Fix,
    Outcome,
    RejectingRule,
    Rule,
    in_yaml,
    is_number,
    set_to,
)
from mbpack.rules.lookup import packs_online
from mbpack.rules.parallel.stage_counts import layers_of

PER_TOKEN, AVERAGE = "model.calculate_per_token_loss", "ddp.average_in_collective"
COMM, SIZES = "model.cp_comm_type", "model.hierarchical_context_parallel_sizes"
#: Switches that wrap the model in another class.
_OTHER_WRAPPERS = ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp", "dist.use_torch_fsdp2")
#: Up to 0.5 nothing looks at the loss settings of these datasets, which need them all the same.
_UNCHECKED = (DatasetKind.CONVERSATION, DatasetKind.ENERGON, DatasetKind.MOCK_VLM)


def _outcome(run: Run, key: str) -> Outcome | None:
    """How a loss setting that is wrong for context parallelism ends, or None where it does not matter."""
    if run.given_size(CP) <= 1:
        return None
    if run.finetuning:
        if run.repaired:
            return LAUNCHER_OVERRIDES if run.wrote(key) else LAUNCHER_SETS
        return REJECTED
    return SILENT if run.release < R06 and run.dataset in _UNCHECKED else None


def sums_itself(run: Run) -> bool:
    """Qwen3-VL and Qwen3.5-VL: the model of 0.4 asserts a loss per token when it is built, providers of 0.5 and later set it."""
    return run.model_class.startswith(("Qwen3VL", "Qwen35VL"))


class PerTokenLoss(RejectingRule):
    """Fine-tuning with context parallelism needs calculate_per_token_loss.

    A rank whose tokens are all masked divides zero by zero when losses are averaged per sample. `run_recipe.py` (0.6
    and later) sets it, whatever the file says.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    - 0.4: `models/qwen_vl/modelling_qwen3_vl/model.py`, `Qwen3VLModel` (an assertion when the model is built)
    - 0.5 to 0.7: `models/qwen_vl/qwen3_vl_provider.py`, `qwen35_vl_provider.py`, `finalize` (they set it themselves)
    - 0.6, 0.7: `scripts/training/recipe_runner.py`, `sync_finetuning_cp_invariants`
    """

    code, slug = "CPL101", "cp/per-token-loss"

    def check(self, run: Run) -> Iterator[Finding]:
        outcome = _outcome(run, PER_TOKEN)
        if outcome is None or run.flag(PER_TOKEN):
            return
        if sums_itself(run):
            if run.release >= R05:
                return
            if outcome is SILENT and run.release >= R04:
                outcome = CRASH_DATA
        yield self.finding(
            run,
            outcome,
            PER_TOKEN,
            f"context parallel {run.cp} needs calculate_per_token_loss: true"
            if outcome in (REJECTED, CRASH_DATA, SILENT)
            else "run_recipe.py sets calculate_per_token_loss to true for context parallelism",
            why="Every context parallel rank would average over its own tokens: those of a rank with few answers count more.",
            related=(CP,),
            fix=self._fix(run, outcome),
        )

    @staticmethod
    def _fix(run: Run, outcome: Outcome) -> Fix:
        if outcome in (CRASH_DATA, SILENT) and run.flag(AVERAGE):  # nothing else names the other half
            both = set_to(run, (PER_TOKEN, True), (AVERAGE, False))
            return Fix("calculate_per_token_loss: true and ddp.average_in_collective: false", both, safe=outcome is not SILENT)
        return Fix("calculate_per_token_loss: true", set_to(run, (PER_TOKEN, True)), safe=outcome is not SILENT)


class AverageInCollective(RejectingRule):
    """A loss per token needs average_in_collective off.

    With a per-token loss the gradients are scaled by token counts; averaging in the collective would scale them again. With
    context parallelism the start-up refuses it (a dataset that it does not look at before 0.6 aside); everywhere else the
    wrapper around the model asserts it before the first step.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: true}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    - 0.3 to 0.7: Megatron-Core `distributed/distributed_data_parallel.py`, `DistributedDataParallel.__init__`
    """

    code, slug = "CPL102", "cp/average-in-collective"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(AVERAGE):
            return
        outcome = _outcome(run, AVERAGE)
        if outcome is None or outcome is SILENT:
            yield from self._built(run)
            return
        if self._forced_off(run):
            return
        yield self.finding(
            run,
            outcome,
            AVERAGE,
            f"context parallel {run.cp} needs average_in_collective: false"
            if outcome is REJECTED
            else "run_recipe.py sets average_in_collective to false for context parallelism",
            why="With a per-token loss gradients are divided by token counts; averaging them in the collective scales them twice.",
            related=(CP,),
            fix=Fix("average_in_collective: false", set_to(run, (AVERAGE, False)), safe=True),
        )

    def _built(self, run: Run) -> Iterator[Finding]:
        """No start-up check looks: what the wrapper around the model says."""
        if any(run.flag(key) for key in _OTHER_WRAPPERS) or packs_online(run):  # the start-up check of such packing asks the same
            return
        if not run.flag(PER_TOKEN) and not (run.release >= R05 and run.cp > 1 and sums_itself(run)):
            return
        yield self.finding(
            run,
            CRASH_DATA,
            AVERAGE,
            "calculate_per_token_loss does not go with average_in_collective",
            why="Megatron-Core asserts it when it wraps the model, before the first step: gradients would be scaled twice.",
            related=(PER_TOKEN,),
            fix=Fix("average_in_collective: false", set_to(run, (AVERAGE, False)), safe=True),
        )

    @staticmethod
    def _forced_off(run: Run) -> bool:
        """Megatron FSDP switches it off before this check (from 0.4 on only with symmetric registration)."""
        if not (run.flag("dist.use_megatron_fsdp") or run.flag("ddp.use_megatron_fsdp")):
            return False
        return run.release < R04 or not run.flag("ddp.disable_symmetric_registration")


class CommTypeListLength(RejectingRule):
    """A cp_comm_type list needs one entry per layer.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: [p2p, p2p], calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "CPL104", "cp/comm-type-list-length"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.cp <= 1:
            return
        kinds = run.value(COMM)
        if kinds is None or isinstance(kinds, str):
            return
        if not isinstance(kinds, list):
            yield _no_texts(self, run, kinds)
            return
        layers = layers_of(run)
        if len(kinds) != layers:
            yield self.finding(
                run,
                REJECTED,
                COMM,
                f"cp_comm_type has {len(kinds)} entries for {layers} layers",
                related=("model.num_layers",),
                fix=self._one_for_all(run, kinds),
            )

    @staticmethod
    def _one_for_all(run: Run, kinds: list[Any]) -> Fix:
        """Equal entries mean the same as one text; of different ones p2p is what any model takes."""
        same = len({str(kind) for kind in kinds}) == 1
        kind = kinds[0] if same and isinstance(kinds[0], str) else "p2p"
        return Fix(f"cp_comm_type: {kind} for all layers, or one entry per layer", set_to(run, (COMM, kind)), same)


class HierarchicalSizes(RejectingRule):
    """The a2a+p2p communication needs hierarchical sizes whose product is CP.

    Without them the communication is silently off and every rank attends to its own piece only. 0.3 does not check.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 4, cp_comm_type: a2a+p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model:
      context_parallel_size: 4
      tensor_model_parallel_size: 1
      cp_comm_type: a2a+p2p
      hierarchical_context_parallel_sizes: [2, 2]
    ```

    ## Upstream
    - 0.4 to 0.7: `training/config.py`, `ConfigContainer._validate_cp_comm_type`
    """

    code, slug = "CPL105", "cp/hierarchical-sizes"

    def check(self, run: Run) -> Iterator[Finding]:
        kinds, sizes, checked = run.value(COMM), run.value(SIZES), run.release >= R04
        named = False
        for kind in kinds if isinstance(kinds, list) else [kinds or P2P]:
            named = isinstance(kind, str) and HIERARCHICAL in kind
            if named:
                break
            if checked and not isinstance(kind, (str, list, Object)):  # the start-up asks what is `in` it
                if isinstance(kinds, list) or run.cp <= 1:  # else cp/comm-type-list-length
                    yield _no_texts(self, run, kind)
                return
        if named and sizes is None:
            yield from self._missing(run, REJECTED if checked else SILENT)
        elif sizes is not None and checked:
            yield from self._multiplied(run, sizes)

    def _missing(self, run: Run, outcome: Outcome) -> Iterator[Finding]:
        cp = run.cp
        if cp <= 1 and outcome is SILENT:
            return
        example = formulas.hierarchical_sizes(cp)
        yield self.finding(
            run,
            outcome,
            COMM,
            f"cp_comm_type a2a+p2p needs hierarchical_context_parallel_sizes with product {cp}",
            why="Without sizes each rank attends only to its own piece: throughput looks high, training is broken.",
            related=(CP, SIZES),
            fix=Fix(f"hierarchical_context_parallel_sizes: {example}, or cp_comm_type: p2p", set_to(run, (COMM, P2P))),
        )

    def _multiplied(self, run: Run, sizes: Any) -> Iterator[Finding]:
        listed = sizes if isinstance(sizes, list) else [] if sizes == "" else None
        if listed is None or not all(is_number(size) for size in listed):
            message = f"hierarchical_context_parallel_sizes must be a list of whole numbers, found {in_yaml(sizes)}"
        elif (product := formulas.product(listed)) != run.given_size(CP):
            message = (
                f"hierarchical_context_parallel_sizes {sizes} multiply to {product}, context parallel is {run.given_size(CP)}"
            )
        else:
            return
        fix = Fix(f"sizes with product {run.given_size(CP)}, or null", set_to(run, (SIZES, None)))
        yield self.finding(run, REJECTED, SIZES, message, related=(CP,), fix=fix)


def _no_texts(rule: Rule, run: Run, found: Any) -> Finding:
    message = f"cp_comm_type must be text or a list of texts, found {in_yaml(found)}"
    return rule.finding(run, REJECTED, COMM, message, fix=Fix("cp_comm_type: p2p", set_to(run, (COMM, P2P))))


RULES: tuple[Rule, ...] = (PerTokenLoss(), AverageInCollective(), CommTypeListLength(), HierarchicalSizes())
