"""What a dense MLP and a layer of experts keep for the backward pass.

Sources: Megatron-Core `mlp.py`, `moe/moe_layer.py`, `moe/router.py`, `moe/moe_utils.py`, `moe/token_dispatcher.py`,
`moe/experts.py`, `moe/shared_experts.py`. Proof: tests/memory.
"""

from __future__ import annotations

from mbpack.memory.attention import adapter, dropped, gemm_bytes, normed_linear, statistics
from mbpack.memory.parameters import gates
from mbpack.memory.rows import Rows
from mbpack.memory.setup import Setup

#: Activations that Megatron-Core fuses with the bias when `bias_activation_fusion` asks for it and the layer is gated.
FUSIBLE_GATED = frozenset({"silu", "quick_gelu", "gelu"})


def fused_activation(setup: Setup) -> bool:
    """Whether the activation of a gated layer is one kernel that keeps its input alone."""
    return setup.activation_fused and setup.shape.activation in FUSIBLE_GATED


def mlp(setup: Setup, live: bool) -> tuple[Rows, bool]:
    """A dense MLP with its norm."""
    shape, tokens, tp = setup.shape, setup.tokens, setup.tp
    h, rows = shape.hidden_size, Rows()
    if dropped(setup, "mlp"):
        if setup.lora is None or live or _targets(setup, "linear_fc1", "linear_fc2"):
            rows.put("mlp norm input", 2 * setup.local * h)
            _behind(rows, setup)
        return rows, live or _targets(setup, "linear_fc1", "linear_fc2") or setup.lora is None
    live = normed_linear(rows, setup, "linear_fc1", live, "mlp")
    f = shape.ffn_hidden_size / tp
    if live:
        rows.put("fc1 output", 2 * tokens * gates(shape) * f)
        if shape.gated_linear_unit and not fused_activation(setup):
            rows.put("unfused activation", (6 if shape.activation_clamped else 4) * tokens * f)
    live = _fc2(rows, setup, live, "fc2 input", f)
    if live:
        _behind(rows, setup)
    return rows, live


def _targets(setup: Setup, *modules: str) -> bool:
    return setup.lora is not None and not setup.lora.targets.isdisjoint(modules)


def _behind(rows: Rows, setup: Setup) -> None:
    if setup.dropout:
        rows.put("dropout masks", setup.mask_bytes * setup.local * setup.shape.hidden_size)
    if setup.shape.norms_extra:
        rows.put("norm behind", 2 * setup.local * setup.shape.hidden_size + statistics(setup))


def _fc2(rows: Rows, setup: Setup, live: bool, term: str, width: float) -> bool:
    """The second linear layer: its input is kept where its weight is trained or an adapter reads it."""
    lora, tokens = setup.lora, setup.tokens
    if lora is None:
        rows.put(term, gemm_bytes(setup) * tokens * width)
        return True
    if "linear_fc2" not in lora.targets:
        return live
    rows.put(term, 2 * tokens * width)
    rows.put("adapters", 2 * tokens * lora.dim + (setup.mask_bytes * tokens * width if lora.dropout else 0))
    return True


def experts(setup: Setup, live: bool, imbalance: float) -> tuple[Rows, bool]:
    """A layer of experts with its norm, router and shared experts; `imbalance`: tokens here over the mean of all ranks."""
    shape, local = setup.shape, setup.local
    h, rows = shape.hidden_size, Rows()
    trained = setup.lora is None
    normless = dropped(setup, "layernorm")
    if trained or live:
        rows.put("mlp norm input", 2 * local * h)
        if not normless:
            rows.put("mlp norm statistics", statistics(setup))
    targets = _targets(setup, "linear_fc1", "linear_fc2")
    if not (trained or live or targets):
        return rows, False
    if not normless:
        rows.put("mlp norm output", 2 * local * h)
    if not dropped(setup, "moe"):
        rows.put("router", local * router_bytes(setup) + _router_constants(setup))
        _routed(rows, setup, live or trained, imbalance)
        _shared(rows, setup, live or trained)
    _behind(rows, setup)
    return rows, True


def router_bytes(setup: Setup) -> float:
    """Bytes a local token of routing and unfused permutation."""
    shape = setup.shape
    e, k = shape.num_moe_experts, shape.moe_router_topk
    size = 22.0 * k + (3 * e if setup.allgather or setup.release < (0, 4) else 8 * e)
    early = setup.release < (0, 5)
    if setup.router_fp32:
        size += 2 * k + (2 * e if setup.release < (0, 4) else 0)
    if setup.router_sigmoid:
        size += 6 * e - 2 * k + 2 if early else 4 * e + 4
    elif setup.router_pre_softmax:
        size += 4 * e - 4 * k
    if setup.router_groups and setup.router_group_topk:
        size += 8 * setup.router_groups * k / setup.router_group_topk + 8 * setup.router_group_topk + e
    if setup.aux_loss:
        size += 4 * e + 8 * k
    if setup.router_z_loss:
        size += 2 * e + 2
    return size


def _router_constants(setup: Setup) -> float:
    """Bytes that do not grow with the tokens: counts of every expert and scales of the losses."""
    counts = {"": 0, "global_aux_loss": 2}.get(setup.aux_loss, 8)
    return counts * setup.shape.num_moe_experts + (4 if setup.aux_loss else 0) + (2 if setup.router_z_loss else 0)


def _routed(rows: Rows, setup: Setup, live: bool, imbalance: float) -> None:
    """The experts of this rank."""
    shape, lora, gemm = setup.shape, setup.lora, gemm_bytes(setup)
    tokens = setup.local * shape.moe_router_topk * imbalance * setup.etp
    f, width = shape.moe_ffn_hidden_size / setup.etp, shape.moe_latent_size or shape.hidden_size
    first, second = _targets(setup, "linear_fc1"), _targets(setup, "linear_fc2")
    if shape.moe_latent_size and lora is None:
        rows.put("latent input", 2 * setup.local * shape.moe_latent_size)
    if lora is None or first:
        rows.put("expert input", (gemm if lora is None else 2) * tokens * width)
    if live or first:
        rows.put("experts' fc1 output", 2 * tokens * gates(shape) * f)
    if not dropped(setup, "moe_act"):
        if live or first:
            rows.put("experts' unfused activation", tokens * f * _activation_bytes(setup) + _linear_offset(setup))
        if lora is None or second:
            rows.put("experts' fc2 input", (gemm if lora is None else 2) * tokens * f)
    if lora is not None:
        rows.put("adapters", 2 * tokens * lora.dim * (first + second))


def _linear_offset(setup: Setup) -> int:
    """Bytes of the one number that the fused quick GELU takes along."""
    return 2 if setup.shape.activation == "quick_gelu" and fused_activation(setup) else 0


def _activation_bytes(setup: Setup) -> int:
    """Bytes an element of the experts' middle that the activation keeps beside its input and its weighted output."""
    shape = setup.shape
    if shape.gated_linear_unit:
        return (0 if fused_activation(setup) else 6) + (4 if shape.activation_clamped else 0)
    return 0 if shape.activation == "squared_relu" and setup.squared_relu_fused else 2


def _shared(rows: Rows, setup: Setup, live: bool) -> None:
    shape, tokens = setup.shape, setup.tokens
    width = shape.moe_shared_expert_intermediate_size
    if not width:
        return
    f, h = width / setup.tp, shape.hidden_size
    if not dropped(setup, "shared_experts"):
        first = adapter(rows, setup, "linear_fc1", h, live)
        if live or first:
            rows.put("shared experts", 2 * tokens * gates(shape) * f)
            if shape.gated_linear_unit and not fused_activation(setup):
                rows.put("shared experts", 4 * tokens * f)
        _fc2(rows, setup, live, "shared experts", f)
    if shape.moe_shared_expert_gate:
        rows.put("shared experts' gate", 2 * setup.local * h + 2 * setup.local)
    if setup.shared_overlap and setup.gathers:
        rows.put("shared experts' copy", 2 * tokens * h)
