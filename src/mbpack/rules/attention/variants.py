"""Attention variants with their own conditions: gated delta net (Qwen3-Next, Qwen3.5) and sparse attention (DSA)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Origin
from mbpack.facts import hard_blocks
from mbpack.facts.attention import GATED_DELTA_NET
from mbpack.facts.releases import R03, R05, R06
from mbpack.rules.base import CRASH_STEP, NOTE, REJECTED, Finding, Fix, RejectingRule, Rule, is_number, set_to
from mbpack.rules.lookup import VARIANT, has_gated_delta_net, packing_key, unpack

TP, CP = "model.tensor_model_parallel_size", "model.context_parallel_size"
DETERMINISTIC, CP_COMM = "model.deterministic_mode", "model.cp_comm_type"
ROPE_FUSION = "model.apply_rope_fusion"
KEY_HEADS, VALUE_HEADS = "model.linear_num_key_heads", "model.linear_num_value_heads"


class GdnPacked(RejectingRule):
    """Gated-delta-net layers (Qwen3-Next, Qwen3.5): heads against the topology, context parallelism, packing.

    Heads that do not divide are refused at start-up, and so is context parallelism on 0.3 and 0.4. These releases
    cannot run packed rows at all; from 0.5 on they are supported, except in deterministic mode.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_next_80b_a3b_sft_config gpus=64 launcher=script
    model: {tensor_model_parallel_size: 32, sequence_parallel: true, pipeline_model_parallel_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen35_vl_9b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 4}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    - 0.3, 0.4: Megatron-Core `ssm/gated_delta_net.py`, `GatedDeltaNet.forward` (0.5 to 0.7 for deterministic mode)
    """

    code, slug = "GDN101", "gdn/packed"

    def check(self, run: Run) -> Iterator[Finding]:
        if not has_gated_delta_net(run):
            return
        if run.value(VARIANT) == GATED_DELTA_NET:
            yield from self._heads(run)
            if run.release < R05 and run.cp > 1:
                yield self.finding(
                    run,
                    REJECTED,
                    CP,
                    f"gated delta net does not run with context parallel {run.cp} before 0.5",
                    related=(VARIANT,),
                    fix=Fix("context_parallel_size: 1, or Megatron-Bridge 0.5 or later"),
                )
        if not run.packed:
            return
        key = packing_key(run)
        if run.release < R05:
            yield self.finding(
                run,
                CRASH_STEP,
                key,
                f"gated delta net cannot run packed rows in {run.release}",
                why="Its state must be reset at every sample; the layer raises NotImplementedError.",
                related=(VARIANT,),
                fix=unpack(run),
            )
        elif run.flag(DETERMINISTIC):
            yield self.finding(
                run,
                CRASH_STEP,
                DETERMINISTIC,
                "gated delta net cannot run packed rows in deterministic mode",
                related=(key,),
                fix=Fix("deterministic_mode: false", set_to(run, (DETERMINISTIC, False))),
            )
        else:
            yield self.finding(
                run,
                NOTE,
                key,
                "packed rows with gated delta net: supported since 0.5, though the recipes keep packing off",
                why="Every sample must divide by the context parallel size, and the last boundary be the row's end.",
            )

    def _heads(self, run: Run) -> Iterator[Finding]:
        keys, values = run.number(KEY_HEADS), run.number(VALUE_HEADS)
        if not is_number(keys) or not is_number(values) or keys <= 0:
            return
        if values % keys:
            message = f"{values} linear value heads are no multiple of {keys} linear key heads"
            yield self._refuse(run, VALUE_HEADS, message, (KEY_HEADS,))
        by_cp = run.release >= R05
        unit = run.tp * run.cp if by_cp else run.tp
        name = f"TP {run.tp} x CP {run.cp}" if by_cp else f"TP {run.tp}"
        for kind, heads, key in (("key", keys, KEY_HEADS), ("value", values, VALUE_HEADS)):
            if unit > 0 and heads % unit:
                place = CP if by_cp and run.wrote(CP) and not run.wrote(TP) else TP
                message = f"{heads} linear {kind} heads cannot be split over {unit} = {name}"
                yield self._refuse(run, place, message, (key, TP, CP))

    def _refuse(self, run: Run, key: str, message: str, related: tuple[str, ...]) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key,
            message,
            why="Gated delta net splits its own heads, beside those of attention.",
            related=related,
            fix=Fix("sizes that divide the linear key and value heads"),
        )


class DsaPacked(RejectingRule):
    """Sparse attention (DeepSeek-V3.2, GLM-5): packed rows from 0.6 on, context parallelism with all_gather only.

    Before 0.6 it stops at the first packed row, and the start-up refuses context parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 gpus=8 launcher=script
    dataset:
      packed_sequence_specs:
        _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs
        packed_sequence_size: 4096
        pad_seq_to_mult: 1
    model: {experimental_attention_variant: dsa, context_parallel_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    dataset:
      enable_offline_packing: true
      offline_packing_specs:
        _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs
        packed_sequence_size: 4096
        pad_seq_to_mult: 1
    model: {experimental_attention_variant: dsa, context_parallel_size: 1}
    ```

    ## Upstream
    - 0.3 to 0.5: Megatron-Core `experimental_attention_variant/dsa.py`, `DSAttention.forward`
    - 0.3 to 0.7: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__` (context parallelism)
    """

    code, slug = "DSA101", "dsa/packed"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.value(VARIANT) != hard_blocks.DSA_VARIANT:
            return
        if run.cp > 1:
            yield from self._context_parallel(run)
        if run.release <= R05 and run.packed:
            yield self.finding(
                run,
                CRASH_STEP,
                packing_key(run),
                f"sparse attention (DSA) does not take packed rows in {run.release}",
                related=(VARIANT,),
                fix=unpack(run),
            )

    def _context_parallel(self, run: Run) -> Iterator[Finding]:
        if run.release <= R05:
            message = f"sparse attention (DSA) does not run with context parallel {run.cp} before 0.6"
            yield self.finding(run, REJECTED, CP, message, related=(VARIANT,), fix=Fix("context_parallel_size: 1"))
            return
        kinds = run.value(CP_COMM)
        wrong = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if not _gathers(kind)]
        if wrong:
            yield self.finding(
                run,
                REJECTED,
                CP_COMM,
                f"sparse attention (DSA) with context parallel {run.cp} needs cp_comm_type allgather, found {wrong[0]}",
                related=(CP, VARIANT),
                fix=Fix("cp_comm_type: allgather", set_to(run, (CP_COMM, "allgather"))),
            )


class DsaRopeFusion(RejectingRule):
    """Sparse attention (DeepSeek-V3.2, GLM-5) does not run with fused rotary embeddings.

    Only a value that somebody wrote is judged: the default depends on the Transformer Engine that is installed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {experimental_attention_variant: dsa, apply_rope_fusion: true, context_parallel_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {experimental_attention_variant: dsa, apply_rope_fusion: false, context_parallel_size: 1}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "DSA102", "dsa/rope-fusion"
    releases = (R03, R06)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.value(VARIANT) != hard_blocks.DSA_VARIANT:
            return
        if run.setting(ROPE_FUSION).origin is not Origin.DEFAULT and run.flag(ROPE_FUSION):
            yield self.finding(
                run,
                REJECTED,
                ROPE_FUSION,
                "apply_rope_fusion with sparse attention (DSA)",
                related=(VARIANT,),
                fix=Fix("apply_rope_fusion: false", set_to(run, (ROPE_FUSION, False))),
            )


def _gathers(kind: object) -> bool:
    return isinstance(kind, str) and kind.replace("_", "").lower() == "allgather"


RULES: tuple[Rule, ...] = (
    GdnPacked(),
    DsaPacked(),
    DsaRopeFusion(),
)
