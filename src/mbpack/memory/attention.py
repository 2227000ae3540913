"""What attention keeps for the backward pass: grouped queries, latent attention, Mamba and the gated delta net.

Every function takes whether its input has a gradient (`live`: not below the first adapter of a frozen model) and returns
its rows and whether its output has one. Sources: Megatron-Core `attention.py`, `multi_latent_attention.py`,
`mamba_mixer.py`, `gated_delta_net.py`; Transformer Engine `layernorm_linear.py`, `linear.py`. Proof: tests/memory.
"""

from __future__ import annotations

from mbpack.memory.parameters import delta_widths, mamba_width, query_width
from mbpack.memory.rows import Rows
from mbpack.memory.setup import Attention, Setup

_LAYER_NUMBER = 4  #: bytes of the one number that recomputed attention takes along


def statistics(setup: Setup) -> float:
    """Bytes of a norm's statistics: FP32 a token, two with LayerNorm."""
    return setup.local * (8 if setup.shape.normalization == "LayerNorm" else 4)


def gemm_bytes(setup: Setup) -> int:
    """Bytes an element of a GEMM's kept input."""
    return 1 if setup.fp8 else 2


def adapter(rows: Rows, setup: Setup, module: str, width: float, live: bool, *, gathered: bool = True) -> bool:
    """Rows of an adapter beside a column parallel module, and whether there is one.

    `width`: elements a token of its input. The input is gathered over the sequence, beside the local one that the module
    itself keeps, unless `gathered` is false or the adapter gathers it again.
    """
    lora = setup.lora
    if lora is None or module not in lora.targets:
        return False
    tokens = setup.tokens if gathered else setup.local
    own = gathered and setup.gathers and not lora.regather
    rows.put("adapters", 2 * tokens * lora.dim)
    if own:
        rows.put("adapters", 2 * tokens * width)
    if lora.dropout and live:  # its mask, and its output where that is not the gathered input anyway
        rows.put("adapters", (setup.mask_bytes + (0 if own else 2)) * tokens * width)
    return True


def normed_linear(rows: Rows, setup: Setup, module: str, live: bool, part: str) -> bool:
    """A norm that is part of the linear module behind it; returns whether its output has a gradient.

    A frozen module keeps the norm's input for the gradient that passes through; the norm's output where an adapter reads it.
    """
    h, local = setup.shape.hidden_size, setup.local
    trained = setup.lora is None
    target = adapter(rows, setup, module, h, live)
    if trained or live:
        rows.put(f"{part} norm input", 2 * local * h)
        rows.put(f"{part} norm statistics", statistics(setup))
    shares = setup.lora is not None and (not setup.gathers or setup.lora.regather)
    if trained or (target and (live or shares)):
        rows.put(f"{part} norm output", (gemm_bytes(setup) if trained else 2) * local * h)
    return trained or live or target


def dropped(setup: Setup, module: str) -> bool:
    """Whether selective recompute names a module."""
    return module in setup.modules


def _scores(setup: Setup, heads: float, rows: Rows) -> None:
    """Unfused attention keeps its probabilities, and with dropout those behind it and their mask."""
    each = 5 if setup.attention_dropout else 2
    rows.put("scores", each * heads * setup.tokens * (setup.length / setup.cp))


def grouped(setup: Setup, live: bool) -> tuple[Rows, bool]:
    """Attention with query groups."""
    shape, tokens, tp = setup.shape, setup.tokens, setup.tp
    rows = Rows()
    groups = max(shape.num_query_groups / tp, 1)
    q, k, heads = query_width(shape) / tp, groups * shape.kv_channels, shape.num_attention_heads / tp
    live = normed_linear(rows, setup, "linear_qkv", live, "attention")
    if live:
        if shape.qk_layernorm:
            each = 8 if shape.normalization == "LayerNorm" else 4
            rows.put("q and k norm", 2 * tokens * (q + k) + each * tokens * (heads + groups))
        if not setup.rope_fused:
            rows.put("rope", 8 * tokens * shape.kv_channels)
        if dropped(setup, "core_attn"):
            rows.put("qkv buffer", _LAYER_NUMBER)
            whole = shape.num_query_groups < tp
            wide = query_width(shape) + 2 * shape.num_query_groups * shape.kv_channels
            rows.put("qkv buffer", 2 * tokens * (q + k) + 2 * tokens * (wide if whole else q + 2 * k))
            if setup.attention is Attention.UNFUSED:
                rows["qkv buffer"] -= 2 * tokens * (q + 2 * k) - 2 * tokens * k
        else:
            rows.put("q, k, v", 2 * tokens * (q + 2 * k))
            if setup.attention is Attention.FLASH:
                rows.put("log-sum-exp", 4 * tokens * heads)
            else:
                _scores(setup, heads, rows)
    live = _projection(rows, setup, live, q, flash=setup.attention is Attention.FLASH)
    return rows, live


def _projection(rows: Rows, setup: Setup, live: bool, width: float, *, flash: bool) -> bool:
    """The output projection: its input is the attention's output, which flash and fused attention keep themselves."""
    lora, shape, tokens = setup.lora, setup.shape, setup.tokens
    target = lora is not None and "linear_proj" in lora.targets
    kept = lora is None or target or (live and flash and not dropped(setup, "core_attn"))
    if kept:
        rows.put("attention output", 2 * tokens * width + (tokens * width if setup.fp8 else 0))
    if lora is not None and target:
        rows.put("adapters", 2 * tokens * lora.dim)
        if lora.dropout:
            rows.put("adapters", (setup.mask_bytes + 2) * tokens * width)
    live = live or target
    if shape.attention_output_gate and live:
        rows.put("output gate", 6 * tokens * width)
    if setup.dropout and live:
        rows.put("dropout masks", setup.mask_bytes * setup.local * shape.hidden_size)
    if shape.norms_extra and live:
        rows.put("norm behind", 2 * setup.local * shape.hidden_size + statistics(setup))
    return live


def latent(setup: Setup, live: bool) -> tuple[Rows, bool]:
    """Multi-head latent attention."""
    shape, tokens, local, tp = setup.shape, setup.tokens, setup.local, setup.tp
    rows, lora, h = Rows(), setup.lora, setup.shape.hidden_size
    n, rope = shape.num_attention_heads / tp, shape.qk_pos_emb_head_dim
    down_q = adapter(rows, setup, "linear_q_down_proj", h, live, gathered=False) if shape.q_lora_rank else False
    down_kv = adapter(rows, setup, "linear_kv_down_proj", h, live, gathered=False)
    full_q = adapter(rows, setup, "linear_q_proj", h, live) if not shape.q_lora_rank else False
    trained = lora is None
    normless = dropped(setup, "layernorm")
    if trained or live:
        rows.put("attention norm input", 2 * local * h)
        if not normless:
            rows.put("attention norm statistics", statistics(setup))
    if (trained or down_q or down_kv or full_q) and not normless:
        rows.put("attention norm output", gemm_bytes(setup) * local * h if trained else 2 * local * h)
    live_q = trained or live or down_q or full_q
    live_kv = trained or live or down_kv
    if dropped(setup, "mla_up_proj"):
        if live_q or live_kv:
            compressed = shape.q_lora_rank + shape.kv_lora_rank + rope
            rows.put("up projection inputs", 2 * local * compressed + 4 * tokens * rope + (2 * tokens * rope if tp > 1 else 0))
    else:
        _compressed(rows, setup, live_q, live_kv)
        if not shape.q_lora_rank and setup.release >= (0, 6) and shape.qk_layernorm:
            _query_norm(rows, setup, trained, live, full_q)
        if not setup.rope_fused and (live_q or live_kv):
            rows.put("rope", 8 * tokens * rope)
    up = (lora is not None) and bool(lora.targets & {"linear_q_up_proj", "linear_kv_up_proj"})
    live = live_q or live_kv or up
    if live:
        if not dropped(setup, "mla_up_proj"):
            rows.put("q, k, v", 2 * tokens * n * (2 * (shape.qk_head_dim + rope) + shape.v_head_dim))
        if setup.attention is Attention.UNFUSED:
            if not dropped(setup, "core_attn"):
                _scores(setup, n, rows)
        else:
            rows.put("log-sum-exp", _LAYER_NUMBER if dropped(setup, "core_attn") else 4 * tokens * n)
    flash = setup.attention is Attention.FLASH
    return rows, _projection(rows, setup, live, n * shape.v_head_dim, flash=flash)


def _query_norm(rows: Rows, setup: Setup, trained: bool, live: bool, target: bool) -> None:
    """The norm in front of a query without a low rank, part of its projection from 0.6 on: statistics and output."""
    if trained or live:
        rows.put("compressed q", statistics(setup))
    shares = setup.lora is not None and (not setup.gathers or setup.lora.regather)
    if trained or (target and (live or shares)):
        rows.put("compressed q", 2 * setup.local * setup.shape.hidden_size)


def _compressed(rows: Rows, setup: Setup, live_q: bool, live_kv: bool) -> None:
    """The compressed q and kv: input of their norm and input of the up projection, or that alone without a norm."""
    shape, local, trained = setup.shape, setup.local, setup.lora is None
    for term, width, module, live in (
        ("compressed q", shape.q_lora_rank, "linear_q_up_proj", live_q),
        ("compressed kv", shape.kv_lora_rank, "linear_kv_up_proj", live_kv),
    ):
        if not width:
            continue
        target = adapter(rows, setup, module, width, live)
        if shape.qk_layernorm and (trained or live):
            rows.put(term, 2 * local * width + statistics(setup))
        if trained or target:
            rows.put(term, 2 * local * width)


def mamba(setup: Setup, live: bool) -> tuple[Rows, bool]:
    """A Mamba 2 layer."""
    shape, tokens, tp = setup.shape, setup.tokens, setup.tp
    rows = Rows()
    d, states = mamba_width(shape), 2 * shape.mamba_num_groups * shape.mamba_state_dim
    before = normed_linear(rows, setup, "in_proj", live, "attention")
    rows.put("mamba", sum(rows.pop(term, 0) for term in list(rows) if term.startswith("attention norm")))
    if before:
        rows.put("mamba", 2 * tokens * (2 * d + states + shape.mamba_num_heads) / tp + 4 * tokens * d / tp)
    target = setup.lora is not None and "out_proj" in setup.lora.targets
    if target and setup.lora is not None:
        rows.put("adapters", 2 * tokens * setup.lora.dim)
    return rows, before or target


def delta(setup: Setup, live: bool) -> tuple[Rows, bool]:
    """A gated delta net (Qwen3-Next, Qwen3.5).

    The convolution reads a transposed copy of q, k and v, the chunked rule a contiguous v. Counted so, it meets what a run of
    a 27 B model took more for 4 K and 12 K rows (4.57 MB a token of a rank at TP 4) to 0.1%.
    """
    shape, tokens, tp = setup.shape, setup.tokens, setup.tp
    rows = Rows()
    (k, v), heads = delta_widths(shape), shape.linear_num_value_heads
    before = normed_linear(rows, setup, "in_proj", live, "attention")
    rows.put("delta net", sum(rows.pop(term, 0) for term in list(rows) if term.startswith("attention norm")))
    if before:
        inner = 2 * (2 * k + 2 * v + 2 * heads) + 2 * 2 * (2 * k + v) + 2 * v + 4 * v + 8 * heads + 4 * v
        rows.put("delta net", tokens * inner / tp)
    target = setup.lora is not None and "out_proj" in setup.lora.targets
    if target and setup.lora is not None:
        rows.put("adapters", 2 * tokens * setup.lora.dim)
    return rows, before or target
