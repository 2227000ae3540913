"""What a pipeline stage keeps from forward to backward for one microbatch, row by row.

Sources: Megatron-Core `transformer_block.py` (recompute by layers), `multi_token_prediction.py`, `gpt_model.py`,
`language_module.py`, `tensor_parallel/cross_entropy.py`; Transformer Engine `cross_entropy.py`. Proof: tests/memory.
"""

from __future__ import annotations

from functools import lru_cache

from mbpack.memory import attention, feed_forward
from mbpack.memory.layers import ATTENTION, DELTA, EXPERTS, LATENT, MAMBA, MLP, Chunk, mtp_kinds
from mbpack.memory.rows import Rows
from mbpack.memory.setup import Entropy, Recompute, Setup

#: Constant bytes of the MTP loss: two counters of tokens and its scale (the scale from 0.5, one counter in 0.3).
_MTP_CONSTANTS = {(0, 3): 8, (0, 4): 16}


@lru_cache(maxsize=4096)
def layer(setup: Setup, kind: str, live: bool, imbalance: float) -> tuple[Rows, bool]:
    """Rows of one layer that is not recomputed as a whole, and whether its output has a gradient."""
    mixer, forward = kind[0], kind[1]
    rows = Rows()
    if mixer == ATTENTION:
        part, live = attention.grouped(setup, live)
        rows.add(part)
    elif mixer == LATENT:
        part, live = attention.latent(setup, live)
        rows.add(part)
    elif mixer == MAMBA:
        part, live = attention.mamba(setup, live)
        rows.add(part)
    elif mixer == DELTA:
        part, live = attention.delta(setup, live)
        rows.add(part)
    if forward == MLP:
        part, live = feed_forward.mlp(setup, live)
        rows.add(part)
    elif forward == EXPERTS:
        part, live = feed_forward.experts(setup, live, imbalance)
        rows.add(part)
    return rows, live


def starts_live(setup: Setup, chunk: Chunk) -> bool:
    """Whether the input of a chunk has a gradient: everywhere but at a frozen embedding."""
    return setup.lora is None or not chunk.embedding


def decoder(setup: Setup, chunk: Chunk, imbalance: float) -> Rows:
    """Rows of all decoder layers of a chunk."""
    rows, live = Rows(), starts_live(setup, chunk)
    whole = _recomputed(setup, len(chunk.layers))
    checkpoints = -(-whole // _group(setup))
    alike: dict[tuple[str, bool], int] = {}
    live = live or whole > 0
    for kind in chunk.layers[whole:]:
        alike[kind, live] = alike.get((kind, live), 0) + 1
        live = live or layer(setup, kind, live, imbalance)[1]
    for (kind, started), number in alike.items():
        rows.add(layer(setup, kind, started, imbalance)[0], number)
    if checkpoints:
        rows.put("checkpoints", 2 * setup.local * setup.shape.hidden_size * checkpoints)
    return rows


def _group(setup: Setup) -> int:
    return max(1, setup.recompute_layers) if setup.recompute is Recompute.UNIFORM else 1


def _recomputed(setup: Setup, layers: int) -> int:
    """How many layers at the front of a chunk are recomputed as a whole."""
    if setup.recompute is Recompute.UNIFORM:
        return layers
    if setup.recompute is Recompute.BLOCK:
        return min(layers, max(0, setup.recompute_layers))
    return 0


def recomputed_group(setup: Setup, chunk: Chunk, imbalance: float) -> Rows:
    """Rows of the largest group of layers that is at once whole again while it runs back; empty without full recompute."""
    best, size = Rows(), _group(setup)
    kinds = chunk.layers[: _recomputed(setup, len(chunk.layers))]
    for start in range(0, len(kinds), size):
        rows = Rows()
        for kind in kinds[start : start + size]:
            rows.add(layer(setup, kind, True, imbalance)[0])
        if rows.total > best.total:
            best = rows
    return best


def mtp(setup: Setup, depths: int, imbalance: float) -> Rows:
    """Rows of the multi-token prediction depths without their logits."""
    shape, tokens, local = setup.shape, setup.tokens, setup.local
    rows, h = Rows(), setup.shape.hidden_size
    ids = 8 * tokens + (tokens if setup.tp > 1 else 0) if setup.lora is None else 0
    for _ in range(depths):
        if setup.recompute in (Recompute.UNIFORM, Recompute.BLOCK):
            rows.put("checkpoints", 4 * local * h)
            rows.put("mtp", 2 * local * h if setup.lora is None else 0)
        else:
            trained = setup.lora is None
            norms = 2 if trained else 1  # the embedding's norm has a gradient to pass on where the embedding is trained
            own = norms * (2 * local * h + attention.statistics(setup)) + (4 * local * h if trained else 0)
            own += 2 * (tokens if setup.gathers else local) * h - 2 * local * h  # its output is a slice of the gathered one
            own += 2 * local * h + attention.statistics(setup)  # final norm
            own += 2 * local * h if trained else 0
            rows.put("mtp", own)
            live = True
            for kind in mtp_kinds(shape):
                part, live = layer(setup, kind, live, imbalance)
                rows.add(part)
        rows.put("token ids", ids + 9 * tokens + 8 * tokens + 4 * tokens)
        rows.put("mtp", _MTP_CONSTANTS.get(setup.release, 20))
    return rows


def kept_logit_bytes(setup: Setup) -> int:
    """Bytes of each logit that stay from forward to backward."""
    return 2 if setup.entropy is Entropy.TE and setup.te != (2, 18) else 4


def peak_logit_bytes(setup: Setup, generation: str = "sm90") -> int:
    """Bytes of each logit at the peak of one loss."""
    if setup.entropy is Entropy.UNFUSED:
        return 6
    if setup.entropy is Entropy.FUSED:
        return 14 if generation == "sm80" else 10
    return 6 if setup.te == (2, 18) else 2


def logits(setup: Setup) -> float:
    """Logits of one loss on one rank."""
    return setup.tokens * setup.vocab / setup.tp


def ends(setup: Setup, chunk: Chunk) -> Rows:
    """Rows of embedding, final norm, output layer and loss of a chunk."""
    rows, tokens, local, h = Rows(), setup.tokens, setup.local, setup.shape.hidden_size
    trained = setup.lora is None
    if chunk.embedding and trained:
        rows.put("token ids", 8 * tokens + (tokens if setup.tp > 1 else 0))
        if setup.dropout:
            rows.put("dropout masks", setup.mask_bytes * local * h)
    if chunk.loss:
        rows.put("final norm", 2 * local * h + attention.statistics(setup) + (2 * local * h if trained else 0))
        rows.put("token ids", 9 * tokens)
        rows.put("logits", kept_logit_bytes(setup) * logits(setup) * (1 + chunk.mtp))
    elif chunk.mtp:
        rows.put("logits", kept_logit_bytes(setup) * logits(setup) * chunk.mtp)
    return rows


def once(setup: Setup, chunk: Chunk) -> Rows:
    """Rows that all microbatches of a chunk share."""
    rows, shape = Rows(), setup.shape
    if _recomputed(setup, len(chunk.layers)) and not shape.multi_latent_attention and not shape.positions:
        rows.put("rope table", 4 * setup.length / setup.cp * shape.kv_channels)
    if chunk.loss and setup.deferred_head is not None and setup.pp > 1:
        number = min(setup.deferred_head or setup.microbatches, setup.microbatches)
        rows.put("deferred head", number * (2 * logits(setup) + 2 * setup.local * shape.hidden_size))
    return rows


@lru_cache(maxsize=4096)
def kept(setup: Setup, chunk: Chunk, imbalance: float = 1.0) -> Rows:
    """Everything one microbatch keeps in a chunk."""
    rows = decoder(setup, chunk, imbalance)
    rows.add(ends(setup, chunk))
    if chunk.mtp:
        rows.add(mtp(setup, chunk.mtp, imbalance))
    return rows
