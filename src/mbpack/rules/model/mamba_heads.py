"""Mamba layers under context parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import count, cp_size, tp_size
from mbpack.config.run import Run
from mbpack.rules.base import CRASH_STEP, Finding, Fix, Rule, words
from mbpack.rules.lookup import is_hybrid

HEADS, GROUPS = "model.mamba_num_heads", "model.mamba_num_groups"
CP, TP = "model.context_parallel_size", "model.tensor_model_parallel_size"


class MambaContextHeads(Rule):
    """Context parallelism gives every rank whole Mamba heads and groups.

    After tensor parallelism has split them, the heads must divide by CP. Groups must too, or CP must be a multiple of the
    groups that a tensor parallel rank has, which are then kept on several ranks. Building the layers asserts both.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=96 launcher=script
    model: {mamba_num_heads: 128, mamba_num_groups: 8, tensor_model_parallel_size: 2, context_parallel_size: 6, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    train: {global_batch_size: 8}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 12}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=64 launcher=script
    model: {mamba_num_heads: 128, mamba_num_groups: 8, tensor_model_parallel_size: 2, context_parallel_size: 4, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    train: {global_batch_size: 8}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `ssm/mamba_context_parallel.py`, `MambaContextParallel.__init__`
    """

    code, slug = "SSM106", "ssm/cp-heads"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        cp = cp_size(run)
        if cp <= 1 or not is_hybrid(run):
            return
        tp, heads, groups = tp_size(run), count(run, HEADS), count(run, GROUPS)
        wrong = []
        if heads and heads % tp == 0 and heads // tp % cp:
            wrong.append(f"{heads} heads")
        if groups and groups % tp == 0:
            own = groups // tp
            if (cp % own if own < cp else own % cp) != 0:
                wrong.append(f"{groups} groups")
        if wrong:
            yield self.finding(
                run,
                CRASH_STEP,
                CP,
                f"{words(wrong)} of the Mamba layers do not go over TP {tp} x CP {cp}",
                why="Every context parallel rank gets whole heads and groups; building the layers asserts it.",
                related=(HEADS, GROUPS, TP),
                fix=Fix("another context parallel size, such as a power of two"),
            )


RULES: tuple[Rule, ...] = (MambaContextHeads(),)
