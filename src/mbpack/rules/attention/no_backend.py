"""Runs for which Transformer Engine finds no attention backend, named by what alone would mend them."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import PAD_MULT, likely_multiple, needed_multiple
from mbpack.config.precision import fp8_in_effect
from mbpack.config.run import Run
from mbpack.facts.attention import WIDE_HEAD
from mbpack.facts.modes import OFFLINE
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.attention.backends import BACKEND, FOLD, Answer, chosen_backend, head_width, judge
from mbpack.rules.attention.cp_comm import MLA, engine, own_attention
from mbpack.rules.base import CRASH_STEP, Finding, Fix, Outcome, Rule, set_to
from mbpack.rules.packing.alignment import CP, REBUILD

#: What 0.7 adds: its own recipes pack rows of such heads on Blackwell, with the Transformer Engine of October 2026.
NEWER = " A newer one may have it: recipes of 0.7 pack such rows."
GPUS_DIFFER = "Other generations of GPUs have one."


def outcome_of(answer: Answer) -> Outcome:
    """An error where the GPU is sure to have no backend; a note about a GPU that the run may be on."""
    if answer.certain:
        return CRASH_STEP
    return CRASH_STEP.as_warning() if not answer.always else CRASH_STEP.as_info()


class Fp8Attention(Rule):
    """FP8 attention does not take packed rows.

    Only the fused kernel computes attention in FP8, and it knows no rows of several samples. No backend is left, with
    or without context parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision:
      _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
      bf16: true
      fp8: hybrid
      fp8_recipe: delayed
      fp8_dot_product_attention: true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: bf16_with_fp8_current_scaling_mixed
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `get_attention_backend`, `nvte_get_fused_attn_backend`
    """

    code, slug = "CPL113", "cp/fp8-dpa"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        fp8 = fp8_in_effect(run)
        if fp8 is None or not fp8.attention or not run.packed or own_attention(run):
            return
        answer = judge(run)
        if answer is None or answer.cause != "fp8":
            return
        key = f"{fp8.key.rpartition('.')[0] or fp8.key}.fp8_dot_product_attention"
        yield self.finding(
            run,
            outcome_of(answer),
            key if run.wrote(key) else fp8.key,
            f"{'MXFP8' if fp8.recipe == 'mxfp8' else 'FP8'} attention does not take packed rows",
            why=f"{engine(run)} has no FP8 kernel for rows of several samples and finds no backend; the first step stops.",
            fix=Fix("fp8_dot_product_attention: false", set_to(run, (key, False))),
        )


class NoBackend(Rule):
    """No attention backend takes the rows of this run on its GPU.

    Transformer Engine chooses among flash, fused and unfused attention by what each can do on a GPU generation, and the
    first step stops where none is left. From 0.5 on padding between samples leaves the fused kernel alone, which needs
    Hopper or later and, for training on Blackwell, heads of at most 128 (multi-latent attention has 192 when packed). Choosing
    `flash` rules it out: FlashAttention 2 knows no padding between samples.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script gpu=h100
    model:
      context_parallel_size: 2
      calculate_per_token_loss: true
      attention_backend: {_target_: megatron.core.transformer.enums.AttnBackend, _call_: true, _args_: [1]}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script gpu=a100
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script gpu=h100
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `get_attention_backend`, `nvte_get_fused_attn_backend`
    """

    code, slug = "ATN109", "attn/no-backend"

    def check(self, run: Run) -> Iterator[Finding]:
        answer = judge(run)
        if answer is None or answer.cause in ("fp8", "softmax"):
            return
        chosen = chosen_backend(run)
        if answer.cause == "backend" and chosen == "unfused":
            return  # attn/unfused-or-local-thd
        if answer.cause == "heads" and run.global_batch and run.release >= NIGHTLY:
            return  # align/fold-alignment-padding
        gpu = f" on {answer.where}" if answer.where else self._known(run)
        if answer.cause == "backend":
            yield self.finding(
                run,
                outcome_of(answer),
                BACKEND,
                f"{chosen} attention does not take these packed rows{gpu}: no backend is left",
                why=f"{engine(run)} stops the first step. "
                + ("FlashAttention 2 knows no padding between samples." if chosen == "flash" else ""),
                related=(PAD_MULT, CP),
                fix=Fix("attention_backend: null (Transformer Engine chooses)", set_to(run, (BACKEND, None))),
            )
            return
        width, newer = head_width(run), answer.cause == "heads" and run.release >= R07
        heads = "packed multi-latent attention" if run.maybe(MLA) is True else f"heads of {width} elements"
        yield self.finding(
            run,
            outcome_of(answer).as_warning() if newer and answer.certain else outcome_of(answer),
            PAD_MULT if run.mode is OFFLINE else CP,
            f"no attention backend takes padding between samples{f' with {heads}' if answer.cause == 'heads' else ''}{gpu}",
            why=f"{engine(run)} stops the first step. Padding between samples leaves the fused kernel alone, and it has none"
            f" for this GPU.{'' if answer.certain else ' ' + GPUS_DIFFER}{NEWER if newer else ''}",
            related=(CP, "model.kv_channels"),
            fix=self._fix(run),
        )

    @staticmethod
    def _known(run: Run) -> str:
        return f" on {run.gpu}" if run.gpu else ""

    @staticmethod
    def _fix(run: Run) -> Fix:
        if run.mode is OFFLINE and needed_multiple(run).value == 1:
            return Fix(f"pad_seq_to_mult: 1 (no padding between samples), and {REBUILD}", set_to(run, (PAD_MULT, 1)))
        return Fix("context parallel 1 and a multiple of 1, or unpacked rows, or another generation of GPUs")


class FoldAlignmentPadding(Rule):
    """Wide heads and padding between samples need fold_alignment_padding (nightly).

    From a head width of 256 on (Qwen3.5) Blackwell has no backend for packed rows that hold padding between samples; the
    option folds the padding into the samples. Documented upstream, not in a release yet.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    model: {context_parallel_size: 2, tensor_model_parallel_size: 1, sequence_parallel: false, kv_channels: 256}
    dataset: {enable_global_batch_packing: true, fold_alignment_padding: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    model: {context_parallel_size: 2, tensor_model_parallel_size: 1, sequence_parallel: false, kv_channels: 256}
    dataset: {enable_global_batch_packing: true, fold_alignment_padding: true}
    ```

    ## Upstream
    - nightly: documentation of online packing; Transformer Engine `get_attention_backend`
    """

    code, slug = "ALN121", "align/fold-alignment-padding"
    releases = (NIGHTLY, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.global_batch or run.is_true(FOLD):
            return
        needed, head = likely_multiple(run), head_width(run)
        if needed.value == 1 or head is None or head < WIDE_HEAD or (90 in run.generations and len(run.generations) == 1):
            return
        sure = len(run.generations) == 1
        yield self.finding(
            run,
            CRASH_STEP if sure else CRASH_STEP.as_warning(),
            FOLD if run.wrote(FOLD) else "dataset.enable_global_batch_packing",
            f"a head width of {head} with padding between samples{'' if sure else ' likely'} needs fold_alignment_padding: true",
            why=f"Samples are padded to {needed.because} = {needed.value}; outside Hopper no backend takes such rows from a"
            f" head width of {WIDE_HEAD} on.",
            related=("model.kv_channels", CP),
            fix=Fix("fold_alignment_padding: true", set_to(run, (FOLD, True))),
        )


RULES: tuple[Rule, ...] = (Fp8Attention(), NoBackend(), FoldAlignmentPadding())
