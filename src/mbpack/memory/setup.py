"""One training run, in the quantities that decide its memory. Nothing here knows configuration keys or recipes.

Sizes are counts of GPUs, tokens, samples or bytes as each field says. A value that nobody gave is settled by who builds a
:class:`Setup`, and named there; here every field has a value.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from msgspec import Struct

from mbpack.facts.shapes import Shape


class Entropy(Enum):
    """How the loss is computed from the logits. Source: Megatron-Core `language_module.py`, `compute_language_model_loss`."""

    UNFUSED = "unfused native"
    FUSED = "fused native"
    TE = "te"


class Recompute(Enum):
    """Which activations are computed again in the backward pass. Source: `recompute_granularity` and `recompute_method`."""

    NONE = "none"
    SELECTIVE = "selective"
    UNIFORM = "full uniform"
    BLOCK = "full block"


class Attention(Enum):
    """What the core attention keeps: flash and fused kernels a log-sum-exp, the others every score."""

    FLASH = "flash or fused"
    UNFUSED = "unfused"


class Lora(Struct, frozen=True):
    """Low-rank adapters: their rank and the modules that have one (``linear_qkv``, ``linear_fc1`` ...).

    `regather`: inputs are gathered again in the backward pass instead of kept (``sequence_parallel_input_regather``).
    """

    dim: int = 32
    targets: frozenset[str] = frozenset({"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"})
    regather: bool = False
    dropout: bool = False


class Setup(Struct, frozen=True, dict=True):
    """A run. `release` is that of Megatron-Bridge, such as (0, 6).

    `vpp`: virtual stages a rank, 1 for none. `length`: tokens a row, before context parallelism. `microbatches`: a step
    and rank. `stages`: decoder layers of every virtual stage in pipeline order where the split is not even, `mtp_stage` the
    virtual stage of MTP layers then (None: the last).
    `grad_bytes`: 4 where gradients are reduced in FP32. `moment_bytes`: of both Adam moments together. `sharded`: whether
    the distributed optimizer divides master weights and moments over the ranks of `data parallel x context parallel`, less
    `optimizer_instances`. `offload`: fraction of the optimizer on the host.
    `fp8`: GEMMs in FP8; `fp8_params`: weights kept in FP8. `te`: (major, minor) of Transformer Engine.
    `squared_relu_fused`: experts with squared ReLU weigh and activate in one kernel. `deferred_head`: microbatches whose gradient of the output layer's weight is put off to the end of the step, 0 for all
    (`defer_embedding_wgrad_compute`, `wgrad_deferral_limit`), None without. `padded_vocab`: vocabulary rows as padded for this tensor parallel size.
    `aux_loss`: the kind of balancing loss with a weight above zero, "" without one. `dropout`: hidden dropout; `attention_dropout`: of the core attention. `imbalance` is no field: routing is a matter of
    the estimate.
    """

    shape: Shape
    gpus: int = 1
    tp: int = 1
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    sp: bool = False
    length: int = 4096
    mbs: int = 1
    microbatches: int = 8
    stages: tuple[int, ...] = ()
    mtp_stage: int | None = None
    release: tuple[int, int] = (0, 6)
    te: tuple[int, int] = (2, 17)
    recompute: Recompute = Recompute.NONE
    recompute_layers: int = 1
    modules: frozenset[str] = frozenset()
    sharded: bool = True
    optimizer_instances: int = 1
    grad_bytes: int = 4
    master_bytes: int = 4
    moment_bytes: int = 8
    precision_aware: bool = False
    offload: float = 0.0
    fp8: bool = False
    fp8_params: bool = False
    entropy: Entropy = Entropy.FUSED
    attention: Attention = Attention.FLASH
    activation_fused: bool = False
    squared_relu_fused: bool = False
    rope_fused: bool = True
    dropout: bool = False
    attention_dropout: bool = False
    mask_bytes: int = 1
    router_fp32: bool = False
    router_pre_softmax: bool = False
    router_sigmoid: bool = False
    aux_loss: str = ""
    router_z_loss: bool = False
    router_groups: int = 0
    router_group_topk: int = 0
    allgather: bool = False
    shared_overlap: bool = False
    expert_overlap: bool = False
    forced_balance: bool = False
    graphs: bool = False
    fsdp: bool = False
    grouped_gemm: bool = True
    deferred_head: int | None = None
    lora: Lora | None = None
    padded_vocab: int = 0

    @cached_property
    def vocab(self) -> int:
        """Rows of the embedding: padded, or the model's own where nobody said how."""
        return self.padded_vocab or self.shape.vocab_size

    @cached_property
    def dp(self) -> int:
        """Data parallel size."""
        return max(1, self.gpus // (self.tp * self.pp * self.cp))

    @cached_property
    def dense_shards(self) -> int:
        """Ranks that share master weights and moments of a dense parameter."""
        return max(1, self.dp * self.cp // self.optimizer_instances) if self.sharded else 1

    @cached_property
    def expert_shards(self) -> int:
        """Ranks that share master weights and moments of an expert's parameter."""
        if not self.sharded:
            return 1
        return max(1, self.gpus // (self.pp * self.ep * self.etp) // self.optimizer_instances)

    @cached_property
    def tokens(self) -> float:
        """Tokens of one microbatch on one rank of the context parallel group."""
        return self.mbs * self.length / self.cp

    @cached_property
    def local(self) -> float:
        """Tokens where the sequence is divided over tensor parallel ranks too."""
        return self.tokens / self.tp if self.sp and self.tp > 1 else self.tokens

    @cached_property
    def gathers(self) -> bool:
        """Whether sequence parallelism is in effect."""
        return self.sp and self.tp > 1
