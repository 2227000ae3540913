"""How attention communicates under context parallelism: the types Transformer Engine accepts for a model."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import count, cp_size, tp_size
from mbpack.config.run import Run
from mbpack.config.shared import shared
from mbpack.facts import attention
from mbpack.facts.attention import A2A, ALL_GATHER, HIERARCHICAL, P2P, TRANSFORMER_ENGINE
from mbpack.facts.releases import R03, R04, R06
from mbpack.rules.base import CRASH_STEP, NOTE, Finding, Fix, Rule, set_to, words
from mbpack.rules.packing.alignment import CP, TP

COMM = "model.cp_comm_type"
WINDOW, SOFTMAX, MLA = "model.window_size", "model.softmax_type", "model.multi_latent_attention"
HEADS, GROUPS = "model.num_attention_heads", "model.num_query_groups"


@shared
def comm_types(run: Run) -> tuple[str, ...]:
    """The communication types the layers use; null is p2p. Empty where the setting is no text or list of texts."""
    value = run.value(COMM)
    items = [P2P if item is None else item for item in (value if isinstance(value, list) else [value])]
    return tuple(dict.fromkeys(items)) if all(isinstance(item, str) for item in items) else ()


@shared
def own_attention(run: Run) -> bool:
    """Whether the model's attention is not Transformer Engine's."""
    return attention.has_own_attention(run.value("model.experimental_attention_variant"))


def comm_key(run: Run) -> str:
    """The place of a finding about the communication type: where it is written, else the CP size that asks for one."""
    return COMM if run.wrote(COMM) or not run.wrote(CP) else CP


def to_type(run: Run, name: str, more: str = "") -> Fix:
    """The fix that chooses a communication type."""
    return Fix(f"cp_comm_type: {name}{more}", set_to(run, (COMM, name)))


def engine(run: Run) -> str:
    """The Transformer Engine of the release, as messages name it."""
    return f"Transformer Engine {TRANSFORMER_ENGINE[run.release]}"


class A2aHeads(Rule):
    """With a2a every rank takes whole heads, so the heads must divide by TP*CP.

    The all-to-all exchange splits attention heads and key-value groups over the context parallel ranks, after tensor
    parallelism has split them already.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=32 launcher=script
    model: {tensor_model_parallel_size: 4, context_parallel_size: 4, cp_comm_type: a2a, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 16}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=32 launcher=script
    model: {tensor_model_parallel_size: 4, context_parallel_size: 2, cp_comm_type: a2a, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `context_parallel.py`, `AttnFuncWithCPAndQKVOA2A`
    """

    code, slug = "CPL106", "cp/a2a-heads"

    def check(self, run: Run) -> Iterator[Finding]:
        cp = cp_size(run)
        if cp <= 1 or A2A not in comm_types(run) or own_attention(run):
            return
        latent = run.flag(MLA)
        if latent and run.release <= attention.MLA_P2P_ONLY_UNTIL:
            return  # cp/mla
        tp, heads = tp_size(run), count(run, HEADS)
        if heads is None or heads <= 0 or heads % tp:
            return  # topo/heads-divisible
        groups = heads if latent else count(run, GROUPS) or heads
        per_rank, per_rank_groups = heads // tp, max(groups // tp, 1)
        if per_rank % cp == 0 and per_rank_groups % cp == 0:
            return
        what = f"{heads} heads" if per_rank % cp else f"{groups} key-value groups"
        likely = "likely " if run.setting(HEADS).likely else ""
        yield self.finding(
            run,
            CRASH_STEP,
            comm_key(run),
            f"a2a {likely}cannot split {what} over TP {tp} x CP {cp}",
            why=f"a2a gives every context parallel rank whole heads: {per_rank} heads and {per_rank_groups} key-value"
            " groups per"
            f" tensor parallel rank must divide by CP {cp}.",
            related=(HEADS, GROUPS, TP, CP),
            fix=to_type(run, P2P, ", or a smaller CP") if P2P in self._others(run) else Fix("a smaller CP or TP"),
        )

    @staticmethod
    def _others(run: Run) -> tuple[str, ...]:
        window = attention.has_window(run.maybe(WINDOW))
        sink = run.maybe(SOFTMAX, "vanilla") != "vanilla"
        return attention.usable_comm_types(run.release, True, window=window, softmax_offset=sink)


class ThdHierarchical(Rule):
    """Packed rows do not work with a2a+p2p.

    Hierarchical context parallelism has no implementation for rows of several samples in any Transformer Engine so far.
    Nothing checks the pair before the first step.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      context_parallel_size: 4
      cp_comm_type: a2a+p2p
      hierarchical_context_parallel_sizes: [2, 2]
      calculate_per_token_loss: true
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 4, cp_comm_type: p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `context_parallel.py`, `attn_forward_func_with_cp`
    """

    code, slug = "CPL107", "cp/thd-hierarchical"

    def check(self, run: Run) -> Iterator[Finding]:
        if cp_size(run) <= 1 or HIERARCHICAL not in comm_types(run) or not run.packed:
            return
        if own_attention(run):
            return
        yield self.finding(
            run,
            CRASH_STEP,
            comm_key(run),
            "a2a+p2p does not work with packed rows",
            why=f"{engine(run)} has no hierarchical context parallelism for rows of several samples; the first step stops.",
            related=(CP,),
            fix=to_type(run, P2P, " (or a2a where the heads divide by CP)"),
        )


class ThdAllGather(Rule):
    """Up to 0.6 packed rows do not work with all_gather.

    Transformer Engine accepts the pair from 2.18 on, which 0.7 pins.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: all_gather, calculate_per_token_loss: true}
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
    - 0.3 to 0.6: Transformer Engine `context_parallel.py`, `attn_forward_func_with_cp`
    """

    code, slug = "CPL108", "cp/thd-all-gather"
    releases = (R03, R06)

    def check(self, run: Run) -> Iterator[Finding]:
        if cp_size(run) <= 1 or ALL_GATHER not in comm_types(run) or not run.packed:
            return
        if own_attention(run):
            return  # DSA demands its own all-gather
        yield self.finding(
            run,
            CRASH_STEP,
            comm_key(run),
            f"all_gather does not work with packed rows in {run.release}",
            why=f"{engine(run)} refuses rows of several samples with all_gather at the first step; 2.18 (0.7) accepts them.",
            related=(CP,),
            fix=to_type(run, P2P, " (or a2a where the heads divide by CP)"),
        )


class ThdA2a(Rule):
    """Packed rows with a2a need Transformer Engine 2.10 or later.

    Every release pins a newer one, so this is only worth knowing where another one is installed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: a2a, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `context_parallel.py`, `attn_forward_func_with_cp`
    """

    code, slug = "CPL109", "cp/thd-a2a"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if cp_size(run) <= 1 or A2A not in comm_types(run) or not run.packed or not run.wrote(COMM):
            return
        yield self.finding(
            run,
            NOTE,
            COMM,
            f"a2a with packed rows needs Transformer Engine {attention.PACKED_A2A_SINCE_TE} or later",
            why=f"{run.release} pins {TRANSFORMER_ENGINE[run.release]}, which has it.",
            related=(CP,),
        )


class SlidingWindow(Rule):
    """Sliding-window attention needs a2a (or all_gather) under context parallelism.

    The ring exchange of p2p cannot limit a window. Packed rows leave only a2a up to 0.6. This concerns GPT-OSS, Gemma,
    Ministral and other models with windowed layers.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=gpt_oss_20b_sft_config gpus=16 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=gpt_oss_20b_sft_config gpus=16 launcher=script
    model: {context_parallel_size: 2, cp_comm_type: a2a, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `context_parallel.py`, `attn_forward_func_with_cp`
    """

    code, slug = "CPL110", "cp/sliding-window"

    def check(self, run: Run) -> Iterator[Finding]:
        if cp_size(run) <= 1 or not attention.has_window(run.value(WINDOW)) or own_attention(run):
            return
        packed = run.packed
        usable = attention.usable_comm_types(run.release, packed, window=True)
        wrong = [name for name in comm_types(run) if name in attention.COMM_TYPES and name not in usable]
        if not wrong:
            return
        rows = "packed rows and " if packed else ""
        yield self.finding(
            run,
            CRASH_STEP,
            comm_key(run),
            f"{rows}sliding-window attention over CP {run.cp} need{'' if rows else 's'} cp_comm_type"
            f" {words(usable, 'or')},"
            f" found {wrong[0]}",
            why=f"{engine(run)} cannot apply a window with {wrong[0]}; the first step stops.",
            related=(WINDOW, CP),
            fix=to_type(run, A2A, " (the heads must divide by TP*CP)"),
        )


class MlaCommType(Rule):
    """Up to 0.4 multi-latent attention exchanges point to point.

    Keys and values of DeepSeek, Moonlight, Kimi and GLM-5 models have another width than the queries, which a2a and
    all_gather of Transformer Engine 2.14 and older do not handle. From 0.5 on Megatron-Core pads the values of packed
    rows to the width of the queries, and Transformer Engine takes both widths otherwise.

    ## Bad
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model: {multi_latent_attention: true, context_parallel_size: 2, cp_comm_type: a2a, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {packed_sequence_specs: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=16 launcher=script
    model: {multi_latent_attention: true, context_parallel_size: 2, cp_comm_type: p2p, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {packed_sequence_specs: null}
    ```

    ## Upstream
    - 0.3, 0.4: Transformer Engine `context_parallel.py`, `attn_forward_func_with_cp`
    - 0.5 to 0.7: Megatron-Core `multi_latent_attention.py`, `_prepare_mla_core_attention_value`
    """

    code, slug = "CPL112", "cp/mla"
    releases = (R03, R04)

    def check(self, run: Run) -> Iterator[Finding]:
        if cp_size(run) <= 1 or not run.flag(MLA) or own_attention(run):
            return
        packed = run.packed
        usable = attention.usable_comm_types(run.release, packed, mla=True)
        wrong = [name for name in comm_types(run) if name in attention.COMM_TYPES and name not in usable]
        if not wrong:
            return
        yield self.finding(
            run,
            CRASH_STEP,
            comm_key(run),
            f"multi-latent attention{' with packed rows' if packed else ''} over CP {run.cp} needs cp_comm_type"
            f" {words(usable, 'or')}, found {wrong[0]}",
            why=f"{engine(run)} does not exchange keys and values of different width with {wrong[0]}; the first step stops.",
            related=(MLA, CP),
            fix=to_type(run, P2P),
        )


class WindowPacked(Rule):
    """Sliding-window attention over packed rows works without context parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=gpt_oss_20b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 1, window_size: [128, 0]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=gpt_oss_20b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 1, window_size: null}
    ```

    ## Upstream
    - 0.3 to 0.7: Transformer Engine `get_attention_backend`
    """

    code, slug = "ATN105", "attn/window-packed"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(WINDOW) or not attention.has_window(run.value(WINDOW)) or cp_size(run) > 1 or not run.packed:
            return
        yield self.finding(
            run,
            NOTE,
            WINDOW,
            "the window applies within each packed sample; with context parallelism it would need cp_comm_type a2a",
        )


RULES: tuple[Rule, ...] = (
    A2aHeads(),
    ThdHierarchical(),
    ThdAllGather(),
    ThdA2a(),
    SlidingWindow(),
    MlaCommType(),
    WindowPacked(),
)
