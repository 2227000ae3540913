"""What every row of a ledger is: its formula in words, and what shows that it is right.

T are tokens of a microbatch on a rank (micro batch x length / CP), Ts those where the sequence is divided over tensor
parallel ranks too (T without sequence parallelism), t is TP, N the tokens that arrive at a rank's experts
(Ts x topk x ETP, times the imbalance of the routing). Widths are bytes of a rank.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Proof(Enum):
    """What shows that a formula is right."""

    COUNTED = "equal to the parameters of real layers and to published totals"
    LAYERS = "equal to what real layers keep, measured on the CPU (Megatron-Core of 0.3 to 0.6)"
    RECORDED = "compared with recorded peaks of GPUs"
    READ = "read in the source; unverified"
    GUESSED = "an assumption; unverified"


class Term(Struct, frozen=True):
    """One kind of row."""

    title: str
    formula: str
    proof: Proof


_L, _R, _D = Proof.LAYERS, Proof.RECORDED, Proof.READ

TERMS: dict[str, Term] = {
    # states
    "weights": Term("weights", "2 bytes a parameter of the rank", Proof.COUNTED),
    "weight copies": Term("FP8 copies of weights", "2 bytes a parameter of a GEMM while FP8 computes from BF16 weights", _R),
    "gradients": Term("gradients", "4 bytes a trained parameter when reduced in FP32, else 2", _R),
    "optimizer": Term(
        "optimizer",
        "master weight and Adam moments a trained parameter, divided by the ranks that share them, less what is offloaded",
        _R,
    ),
    # attention
    "attention norm input": Term("attention: norm input", "2 Ts h", _L),
    "attention norm statistics": Term("attention: norm statistics", "4 Ts (8 Ts with LayerNorm)", _L),
    "attention norm output": Term("attention: input of the first projection", "2 Ts h", _L),
    "q, k, v": Term("attention: q, k and v", "2 T (q + 2 k) / t; fewer than one group a rank counts as one", _L),
    "qkv buffer": Term(
        "attention: q, k and the whole qkv buffer under core_attn recompute",
        "2 T (q + k) / t + 2 T (q + 2 k) / t; the buffer undivided where TP exceeds the groups",
        _L,
    ),
    "q and k norm": Term("attention: inputs and statistics of q and k norm", "2 T (q + k) / t + 4 T (heads + groups) / t", _L),
    "log-sum-exp": Term("attention: log-sum-exp", "4 T heads / t", _L),
    "scores": Term("attention: scores of unfused attention", "2 to 5 heads / t x length^2 a row", _R),
    "attention output": Term("attention: output", "2 T q / t", _L),
    "output gate": Term("attention: output gate", "6 T q / t", _L),
    "rope": Term("attention: cos and sin of unfused rotary embedding", "8 T head_dim", _L),
    "dropout masks": Term("dropout masks", "Ts h behind attention and MLP each", _R),
    "norm behind": Term("norms behind attention or MLP", "2 Ts h + 4 Ts each", _D),
    # latent attention
    "compressed q": Term(
        "latent attention: compressed q",
        "4 Ts q_lora + 4 Ts (2 Ts q_lora without its norm); without low rank 2 Ts h + 4 Ts from 0.6 on",
        _L,
    ),
    "compressed kv": Term("latent attention: compressed k and v", "4 Ts kv_lora + 4 Ts (2 Ts kv_lora without its norm)", _L),
    "up projection inputs": Term(
        "latent attention: compressed tensors and rope under mla_up_proj recompute",
        "2 Ts q_lora + 2 Ts (kv_lora + rope) + 4 T rope, and 2 T rope with TP above 1",
        _L,
    ),
    # feed-forward
    "mlp norm input": Term("MLP: norm input", "2 Ts h", _L),
    "mlp norm statistics": Term("MLP: norm statistics", "4 Ts (8 Ts with LayerNorm)", _L),
    "mlp norm output": Term("MLP: input of fc1", "2 Ts h", _L),
    "fc1 output": Term("MLP: output of fc1", "2 T g f / t (g = 2 when gated)", _L),
    "unfused activation": Term("MLP: pieces of an unfused gated activation", "4 T f / t", _L),
    "fc2 input": Term("MLP: input of fc2", "2 T f / t", _L),
    # experts
    "router": Term(
        "experts: router and permutation",
        "Ts (8 E + 22 topk) from 0.4, Ts (3 E + 22 topk) in 0.3, and what its score function and losses add",
        _L,
    ),
    "latent input": Term("experts: input of the latent projection", "2 Ts latent", _L),
    "expert input": Term("experts: input", "2 N width", _L),
    "experts' fc1 output": Term("experts: output of fc1", "2 N g f / ETP", _L),
    "experts' unfused activation": Term("experts: pieces of an unfused activation", "6 N f / ETP gated, else 2 N f / ETP", _L),
    "experts' fc2 input": Term("experts: input of fc2", "2 N f / ETP", _L),
    "shared experts": Term("shared experts", "2 T g f / t + 2 T f / t, and 4 T f / t with an unfused gated activation", _L),
    "shared experts' gate": Term("shared experts: gate", "2 Ts h + 2 Ts", _L),
    "shared experts' copy": Term("shared experts: gathered input while they overlap with the dispatch", "2 T h", _L),
    # state space and linear attention
    "mamba": Term(
        "Mamba: projections, scan and gated norm",
        "4 Ts h + 4 Ts + 2 T (2 d + 2 groups x state + heads) / t + 4 T d / t",
        _R,
    ),
    "delta net": Term(
        "gated delta net: projections, convolution, q, k, gates and outputs",
        "4 Ts h + 4 Ts + 2 T (2 k + 2 v + 2 heads) / t + 4 T (2 k + v) / t + 2 T v / t + 4 T v / t + 8 T heads / t + 4 T v / t",
        _R,
    ),
    # adapters
    "adapters": Term("adapters: gathered inputs and middle", "2 T h where the input is gathered, 2 T rank", _L),
    # whole model
    "checkpoints": Term("inputs of layers that are computed again", "2 Ts h for every recomputed group of layers", _L),
    "rope table": Term("rotary table of recomputed layers", "4 T head_dim, once", _L),
    "token ids": Term("token ids, labels and masks", "8 T + T of the embedding (first stage), 9 T of the loss (last)", _L),
    "final norm": Term("final norm and input of the output layer", "4 Ts h + 4 Ts", _L),
    "logits": Term("logits kept for the backward pass", "2 or 4 bytes a logit: T x vocabulary / t", _L),
    "mtp": Term("multi-token prediction: norms, projection, its own head input", "per depth 4 Ts h x 2 + 2 T h + ...", _L),
    "deferred head": Term(
        "inputs and gradients of the output layer that wait for the end of the step",
        "2 T vocabulary / t + 2 Ts h a microbatch put off",
        _R,
    ),
    # temporary
    "loss peak": Term(
        "peak of the loss above what is kept",
        "bytes a logit: unfused 6 - 4, fused native 10 - 4 (14 - 4 on A100), te 0 (6 - 4 with Transformer Engine 2.18)",
        _R,
    ),
    "backward workspace": Term(
        "workspace of the backward pass", "gradients of the layer at work, and what it computes again", Proof.GUESSED
    ),
    "embedding gradient": Term("gradient of the embedding table", "2 bytes an entry of the rank's table", _D),
    "workspaces": Term("workspaces of libraries, small buffers", "0.15 GiB", _R),
}
