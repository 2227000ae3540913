"""Memory that only lives while a pass runs: the loss, the layer that runs back, the gradient of the embedding.

The workspace of the backward pass is the least certain part of an estimate: it is counted from what the functions make, no
layer oracle measures it, and recordings show it on stages without the loss alone.
"""

from __future__ import annotations

from mbpack.memory import ledger
from mbpack.memory.attention import dropped
from mbpack.memory.layers import ATTENTION, LATENT, MLP, Chunk
from mbpack.memory.parameters import gates, query_width
from mbpack.memory.setup import Attention, Recompute, Setup


def loss(setup: Setup, generation: str) -> float:
    """Bytes above the kept logits at the peak of the loss."""
    return (ledger.peak_logit_bytes(setup, generation) - ledger.kept_logit_bytes(setup)) * ledger.logits(setup)


def _forward_part(setup: Setup, kind: str, imbalance: float) -> float:
    """Backward of the feed-forward half: gradients of its input, output and middle."""
    shape, tokens, local, h = setup.shape, setup.tokens, setup.local, setup.shape.hidden_size
    if kind[1] == MLP:
        f = shape.ffn_hidden_size / setup.tp
        return 4 * local * h + (2 * tokens * h if setup.gathers else 0) + 2 * tokens * (1 + gates(shape)) * f
    if kind[1] == ".":
        return 0
    f = shape.moe_ffn_hidden_size / setup.etp
    arrived = local * shape.moe_router_topk * imbalance * setup.etp
    width = shape.moe_latent_size or h
    return 4 * local * h + 2 * arrived * (width + (1 + gates(shape)) * f)


def _mixer_part(setup: Setup, kind: str) -> float:
    """Backward of the attention half: float32 dQ, gradients of the output, of q, k and v twice."""
    shape, tokens, local, h = setup.shape, setup.tokens, setup.local, setup.shape.hidden_size
    base = 4 * local * h + (2 * tokens * h if setup.gathers else 0)
    if kind[0] == ATTENTION:
        q, k = query_width(shape) / setup.tp, max(shape.num_query_groups / setup.tp, 1) * shape.kv_channels
        out = q
    elif kind[0] == LATENT:
        n = shape.num_attention_heads / setup.tp
        q = n * (shape.qk_head_dim + shape.qk_pos_emb_head_dim)
        k, out = (q + n * shape.v_head_dim) / 2, n * shape.v_head_dim
    else:
        return base
    scores = 0.0
    if setup.attention is Attention.UNFUSED:
        heads = shape.num_attention_heads / setup.tp
        scores = 4 * heads * tokens * setup.length / setup.cp
    return base + tokens * (4 * q + 2 * out + 4 * (q + 2 * k)) + scores


def backward(setup: Setup, chunk: Chunk, imbalance: float) -> float:
    """Bytes above what is kept when the last layer of a chunk runs back, with what it computes again."""
    if not chunk.layers:
        return 0
    kind = chunk.layers[-1]
    again = 0.0
    if setup.recompute in (Recompute.UNIFORM, Recompute.BLOCK):
        again = ledger.recomputed_group(setup, chunk, imbalance).total
    elif setup.modules:
        again = max(0.0, _again(setup, kind, imbalance))
    forward = _forward_part(setup, kind, imbalance)
    mixer = _mixer_part(setup, kind)
    freed = sum(size for term, size in ledger.layer(setup, kind, True, imbalance)[0].items() if not term.startswith("attention"))
    if not again:
        return max(forward, mixer - freed) if kind[0] != "." else forward
    return again + max(forward, mixer - again)


def _again(setup: Setup, kind: str, imbalance: float) -> float:
    """What selective recompute brings back for the feed-forward half."""
    if not (dropped(setup, "mlp") or dropped(setup, "moe") or dropped(setup, "moe_act") or dropped(setup, "shared_experts")):
        return 0
    bare = _without(setup)
    return ledger.layer(bare, kind, True, imbalance)[0].total - ledger.layer(setup, kind, True, imbalance)[0].total


def _without(setup: Setup) -> Setup:
    from msgspec import structs

    return structs.replace(setup, modules=setup.modules - {"mlp", "moe", "moe_act", "shared_experts"})


def overlap(setup: Setup, chunk: Chunk, imbalance: float) -> float:
    """The layer that is ahead where a forward pass runs against the backward pass of the microbatch before it."""
    if not setup.expert_overlap or not chunk.layers:
        return 0
    return ledger.layer(setup, chunk.layers[-1], True, imbalance)[0].total


def embedding_gradient(setup: Setup, chunk: Chunk) -> float:
    """The dense gradient of the embedding table that its backward makes before it is added up."""
    if not chunk.embedding or setup.lora is not None:
        return 0
    return 2 * setup.vocab * setup.shape.hidden_size / setup.tp
