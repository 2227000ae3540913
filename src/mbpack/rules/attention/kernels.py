"""Attention kernels for packed rows: what a backend, a precision or a release cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import PAD_MULT, cp_size
from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown, WrongKind
from mbpack.facts.attention import A2A, COMM_TYPES, P2P, SOFTMAX_OFFSET_CUDNN, TAIL_PADDING_DEFECT
from mbpack.facts.releases import R05, R06
from mbpack.rules.attention.backends import BACKEND, ENUM, chosen_backend, judge
from mbpack.rules.attention.cp_comm import MLA, SOFTMAX, comm_key, comm_types, engine, own_attention, to_type
from mbpack.rules.base import CRASH_STEP, IGNORED, NOTE, Finding, Fix, Rule, set_to, words
from mbpack.rules.packing.alignment import CP

IMPL, SPEC = "model.transformer_impl", "model.transformer_layer_spec"
ENUM_PATH = "megatron.core.transformer.enums.AttnBackend"


class SoftmaxOffset(Rule):
    """A learnable softmax offset needs a2a under context parallelism, and a recent cuDNN for packed rows.

    GPT-OSS uses such an offset ("attention sink"). Only the fused cuDNN attention has it, with packed rows from cuDNN
    9.18 on; a file cannot show which cuDNN is installed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=gpt_oss_20b_sft_config gpus=16 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: p2p, calculate_per_token_loss: true}
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
    - 0.3 to 0.7: Transformer Engine `context_parallel.py`, `attn_forward_func_with_cp`; `get_attention_backend`
    """

    code, slug = "CPL111", "cp/softmax-offset"

    def check(self, run: Run) -> Iterator[Finding]:
        kind = run.value(SOFTMAX, "vanilla")
        if not isinstance(kind, str) or kind == "vanilla" or own_attention(run):
            return
        cp = cp_size(run)
        wrong = [name for name in comm_types(run) if name in COMM_TYPES and name != A2A] if cp > 1 else []
        if wrong:
            yield self.finding(
                run,
                CRASH_STEP,
                comm_key(run),
                f"softmax_type {kind} over CP {cp} needs cp_comm_type a2a, found {wrong[0]}",
                why=f"{engine(run)} has the softmax offset only where a rank holds whole heads; the first step stops.",
                related=(SOFTMAX, CP),
                fix=to_type(run, A2A, " (the heads must divide by TP*CP)"),
            )
        if not run.packed:
            return
        if wrong:
            return
        answer = judge(run)
        stops = answer is not None and answer.cause == "softmax"
        certain = answer is not None and stops and answer.certain
        gpu = f" on {run.gpu}" if certain and run.gpu else ""
        yield self.finding(
            run,
            CRASH_STEP if certain else CRASH_STEP.as_warning() if stops else NOTE,
            SOFTMAX if run.wrote(SOFTMAX) or cp == 1 else comm_key(run),
            f"softmax_type {kind} does not take these packed rows{gpu}"
            if certain
            else f"softmax_type {kind} with packed rows needs cuDNN {SOFTMAX_OFFSET_CUDNN} or later",
            why="No backend is left and the first step stops."
            if certain
            else "Only the fused attention of that cuDNN has both; without it "
            + ("the first step stops." if stops else "the slow unfused attention remains."),
            related=(CP,) if cp > 1 else (),
            fix=Fix(
                "unpacked rows, or Hopper and later"
                if certain
                else f"check the container's cuDNN ({SOFTMAX_OFFSET_CUDNN} or later)"
            ),
        )


class MiddleStageMask(Rule):
    """0.5.0 slices a placeholder mask on the middle pipeline stages.

    With offline packs, context parallelism and three or more stages those ranks fail with an index error at the first
    step. 0.5.1 sends no mask.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5.0 gpus=32 launcher=script
    model: {pipeline_model_parallel_size: 4, context_parallel_size: 2}
    dataset:
      packed_sequence_specs: {packed_sequence_size: 8192, pad_seq_to_mult: 4}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5.1 gpus=32 launcher=script
    model: {pipeline_model_parallel_size: 4, context_parallel_size: 2}
    dataset:
      packed_sequence_specs: {packed_sequence_size: 8192, pad_seq_to_mult: 4}
    ```

    ## Upstream
    - 0.5.0: `training/gpt_step.py`, `_partition_packed_batch_for_cp`
    """

    code, slug = "CPL114", "cp/middle-stage-mask"
    releases = (R05, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        affected = run.patch == "0.5.0"
        if not affected and run.context.version.exact:
            return
        if run.pp < 3 or cp_size(run) <= 1 or not run.offline:
            return
        yield self.finding(
            run,
            CRASH_STEP if affected else NOTE,
            "model.pipeline_model_parallel_size",
            f"0.5.0 fails with packed rows over CP {run.cp} and PP {run.pp}"
            + ("" if affected else "; 0.5.1, which is assumed here, does not"),
            why="Its middle stages slice a one-element placeholder of an attention mask along a dimension it does not have.",
            related=(CP,),
            fix=Fix("Megatron-Bridge 0.5.1 or later"),
        )


class TeTailPadding(Rule):
    """The Transformer Engine of 0.5 is reported to overlook padding after a row's last sample.

    With p2p and a last sample whose real length does not divide by 2*CP, some rows of the output are reported to be
    zero when logical and padded boundaries are the same. A padding multiple above 1 makes the run pass them apart, so
    packs that are aligned anyway are likely not hit.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {packed_sequence_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.5: Transformer Engine 2.16 `context_parallel.py`
    """

    code, slug = "CPL115", "cp/te-tail-padding"
    notes_only = True
    routine = True
    releases = (TAIL_PADDING_DEFECT, TAIL_PADDING_DEFECT)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if cp_size(run) <= 1 or P2P not in comm_types(run) or not run.packed:
            return
        multiple = run.maybe(PAD_MULT) if run.offline else None
        apart = isinstance(multiple, int) and multiple > 1
        yield self.finding(
            run,
            NOTE,
            comm_key(run),
            f"{engine(run)} has a reported defect with padding after the last sample and p2p",
            why="Some output rows may be zero when logical and padded boundaries are the same"
            + ("; with this padding multiple they are passed apart, so it is likely not hit." if apart else "."),
            related=(CP, PAD_MULT),
            fix=Fix("a later Transformer Engine, or samples whose real length divides by 2*CP"),
        )


class BackendString(Rule):
    """attention_backend given as text is not applied.

    The value stays text, Megatron-Core compares it with an enum and finds nothing, and Transformer Engine chooses
    freely, as with auto. Only a mapping that builds the enum member counts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {attention_backend: fused}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      attention_backend: {_target_: megatron.core.transformer.enums.AttnBackend, _call_: true, _args_: [2]}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `models/common/language_module/language_module.py`, `_set_attention_backend`
    """

    code, slug = "ATN101", "attn/backend-string-ignored"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        value = run.value(BACKEND)
        if not isinstance(value, str) or value.rpartition(".")[2].lower() == "auto":
            return
        if value == "local" and self._hybrid(run):
            return
        number = run.settings.schema.enums.get(ENUM, {}).get(value.rpartition(".")[2].lower())
        choice = (
            f"[{number}]"
            if number is not None
            else "[n] with " + words((f"{name}={n}" for name, n in run.settings.schema.enums.get(ENUM, {}).items()), "or")
        )
        yield self.finding(
            run,
            IGNORED.as_warning() if run.wrote(BACKEND) else IGNORED.as_info(),
            BACKEND,
            f"attention_backend {value} is text and not applied; the backend is chosen as with auto",
            why="Megatron-Core compares the value with the AttnBackend enum, and text equals none of its members.",
            fix=self._fix(run, value, choice),
        )

    @staticmethod
    def _fix(run: Run, value: str, choice: str) -> Fix:
        """The enum member where it would work; the choice that is made now where it would stop the first step."""
        asked = value.rpartition(".")[2].lower()
        try:
            refused = asked in ("flash", "unfused") and judge(run, asked) is not None
        except (Unknown, WrongKind):
            refused = True
        if run.settings.python:
            now = "None, which chooses as now"
            return Fix(now if refused else f"AttnBackend.{asked} of {ENUM_PATH.rpartition('.')[0]}, or {now}")
        if refused:
            return Fix(f"attention_backend: null, which chooses as now; {asked} may not take the rows of this run")
        return Fix(f"{{_target_: {ENUM_PATH}, _call_: true, _args_: {choice}}}, or null, which chooses as now")

    @staticmethod
    def _hybrid(run: Run) -> bool:
        """Hybrid providers of 0.6 and later also take the text "local"."""
        return run.release >= R06 and "Hybrid" in (run.settings.class_at("model") or "")


class LocalAttention(Rule):
    """Megatron-Core's local attention takes no packed rows; unfused attention none with padding or context parallelism.

    From 0.5 on Transformer Engine's unfused attention takes no padding between samples, in no release context parallelism.
    Local attention is chosen by the enum member of `attention_backend` or by a local layer spec. `transformer_impl:
    local` does not choose it: Bridge builds the layers from `transformer_layer_spec`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      attention_backend: {_target_: megatron.core.transformer.enums.AttnBackend, _call_: true, _args_: [4]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      attention_backend: {_target_: megatron.core.transformer.enums.AttnBackend, _call_: true, _args_: [2]}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `transformer/dot_product_attention.py`, `DotProductAttention.forward`
    - 0.3 to 0.7: `models/gpt_provider.py`, `GPTModelProvider.provide`; 0.6, 0.7: `models/hybrid/hybrid_provider.py`
    """

    code, slug = "ATN102", "attn/unfused-or-local-thd"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        backend = chosen_backend(run)
        spec = run.maybe(SPEC)
        local_spec = isinstance(spec, Object) and spec.name == "local_layer_spec"
        impl_written = run.wrote(IMPL) and run.value(IMPL) == "local"
        if not (backend in ("local", "unfused") or local_spec or impl_written) or not run.packed:
            return
        if backend == "local" or local_spec:
            yield self.finding(
                run,
                CRASH_STEP,
                SPEC if local_spec else BACKEND,
                "local attention does not take packed rows",
                why="Megatron-Core's own attention has no boundaries to keep samples apart and stops at the first step.",
                fix=Fix("the Transformer Engine attention: leave the key out"),
            )
        elif backend == "unfused" and (answer := judge(run)) is not None and answer.cause == "backend":
            rows = f"packed rows over CP {run.cp}" if cp_size(run) > 1 else "packed rows with padding between samples"
            yield self.finding(
                run,
                CRASH_STEP,
                BACKEND,
                f"unfused attention does not take {rows}",
                why="Transformer Engine then finds no backend at the first step.",
                related=("model.context_parallel_size", PAD_MULT),
                fix=Fix("attention_backend auto (5) or fused (2)"),
            )
        elif impl_written:
            yield self.finding(
                run,
                IGNORED.as_warning(),
                IMPL,
                "transformer_impl local does not select local layers, and local attention would not take packed rows",
                why="Bridge builds the layers from transformer_layer_spec, whose default is Transformer Engine.",
                fix=Fix("transformer_impl: transformer_engine", set_to(run, (IMPL, "transformer_engine"))),
            )


class FusedQkvRope(Rule):
    """fused_single_qkv_rope stops the first step of a packed run.

    The fused kernel knows no sample boundaries. Attention does not fall back to separate kernels: it asserts that the
    switch is off whenever rows are packed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fused_single_qkv_rope: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fused_single_qkv_rope: false}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `transformer/attention.py`, `Attention.forward`
    """

    code, slug = "ATN104", "attn/fused-qkv-rope"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        key = "model.fused_single_qkv_rope"
        if run.flag(key) and run.packed and not run.flag(MLA) and not own_attention(run):
            yield self.finding(
                run,
                CRASH_STEP,
                key,
                "fused_single_qkv_rope does not take packed rows",
                why="The fused kernel knows no sample boundaries; the first attention layer asserts that the switch is off.",
                fix=Fix("fused_single_qkv_rope: false", set_to(run, (key, False)), safe=True),
            )


RULES: tuple[Rule, ...] = (
    SoftmaxOffset(),
    MiddleStageMask(),
    TeTailPadding(),
    BackendString(),
    LocalAttention(),
    FusedQkvRope(),
)
