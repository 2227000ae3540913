"""Parameters of a model and of every rank, exactly.

Every weight is counted whole, with how it is divided: over tensor parallel ranks, over expert parallel ones, or not.
Sources: Megatron-Core `attention.py`, `multi_latent_attention.py`, `mlp.py`, `experts.py`, `shared_experts.py`, `router.py`,
`mamba_mixer.py`, `gated_delta_net.py`, `multi_token_prediction.py`; Megatron-Bridge `peft/lora.py`. The counts of real
layers of 0.3 to 0.6 at TP 1, 2 and 4 are in tests/data/memory, published totals in `facts/data/shapes.tsv`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from mbpack.facts.shapes import Shape
from mbpack.memory.layers import ATTENTION, DELTA, EXPERTS, LATENT, MAMBA, MLP, Chunk, chunks, layer_kinds, mtp_kinds
from mbpack.memory.setup import Lora, Setup

#: How a weight is divided: over the tensor parallel group, over the expert groups, or copied to every rank.
SPLIT, EXPERT, COPIED = "tensor", "expert", "copied"
_CONVOLUTION = 4  #: taps of the causal convolution in front of Mamba and the delta net


class Weight(Struct, frozen=True):
    """One weight of a layer: its parameters over all ranks, how it is divided, and the linear module it belongs to."""

    name: str
    count: int
    split: str
    module: str = ""


class Count(Struct, frozen=True):
    """Parameters of one rank: dense ones divided over TP and copied ones, those of experts, and how many are trained."""

    split: float = 0
    copied: float = 0
    expert: float = 0
    dense_trained: float = 0
    expert_trained: float = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.split + other.split,
            self.copied + other.copied,
            self.expert + other.expert,
            self.dense_trained + other.dense_trained,
            self.expert_trained + other.expert_trained,
        )

    def times(self, number: int) -> Count:
        """So many layers of the kind."""
        return Count(
            self.split * number,
            self.copied * number,
            self.expert * number,
            self.dense_trained * number,
            self.expert_trained * number,
        )

    @property
    def dense(self) -> float:
        """Parameters that are no expert's."""
        return self.split + self.copied

    @property
    def all(self) -> float:
        """Parameters of both kinds."""
        return self.split + self.copied + self.expert

    @property
    def trained(self) -> float:
        """Trained parameters of both kinds."""
        return self.dense_trained + self.expert_trained


def _norm(shape: Shape, width: int) -> int:
    return width * (2 if shape.normalization == "LayerNorm" else 1)


def _attention(shape: Shape) -> Iterator[Weight]:
    h, q, k = shape.hidden_size, query_width(shape), shape.num_query_groups * shape.kv_channels
    gate = q if shape.attention_output_gate else 0
    yield Weight("attention norm", _norm(shape, h), COPIED)
    yield Weight("qkv", h * (q + gate + 2 * k), SPLIT, "linear_qkv")
    if shape.add_bias_linear or shape.add_qkv_bias:
        yield Weight("qkv bias", q + gate + 2 * k, SPLIT)
    yield Weight("projection", q * h, SPLIT, "linear_proj")
    if shape.add_bias_linear:
        yield Weight("projection bias", h, COPIED)
    if shape.qk_layernorm:
        yield Weight("q and k norm", _norm(shape, q + k if shape.qk_norm_whole else 2 * shape.kv_channels), COPIED)
    if shape.softmax_offset_learnable:
        yield Weight("softmax offset", shape.num_attention_heads, SPLIT)
    if shape.norms_extra:
        yield Weight("norm behind attention", _norm(shape, h), COPIED)


def query_width(shape: Shape) -> int:
    """Width of all query heads together."""
    return shape.num_attention_heads * shape.kv_channels


def _latent(shape: Shape, release: tuple[int, int]) -> Iterator[Weight]:
    h, n, rope = shape.hidden_size, shape.num_attention_heads, shape.qk_pos_emb_head_dim
    yield Weight("attention norm", _norm(shape, h), COPIED)
    if shape.q_lora_rank:
        yield Weight("q down", h * shape.q_lora_rank, COPIED, "linear_q_down_proj")
        yield Weight("q up", shape.q_lora_rank * n * (shape.qk_head_dim + rope), SPLIT, "linear_q_up_proj")
        if shape.qk_layernorm:
            yield Weight("q norm", _norm(shape, shape.q_lora_rank), COPIED)
    else:
        yield Weight("q", h * n * (shape.qk_head_dim + rope), SPLIT, "linear_q_proj")
        if release >= (0, 6) and shape.qk_layernorm:
            yield Weight("q norm", _norm(shape, h), COPIED)
    yield Weight("kv down", h * (shape.kv_lora_rank + rope), COPIED, "linear_kv_down_proj")
    yield Weight("kv up", shape.kv_lora_rank * n * (shape.qk_head_dim + shape.v_head_dim), SPLIT, "linear_kv_up_proj")
    if shape.qk_layernorm:
        yield Weight("kv norm", _norm(shape, shape.kv_lora_rank), COPIED)
    yield Weight("projection", n * shape.v_head_dim * h, SPLIT, "linear_proj")


def _mlp(shape: Shape) -> Iterator[Weight]:
    h, f, g = shape.hidden_size, shape.ffn_hidden_size, gates(shape)
    yield Weight("mlp norm", _norm(shape, h), COPIED)
    yield Weight("fc1", h * g * f, SPLIT, "linear_fc1")
    yield Weight("fc2", f * h, SPLIT, "linear_fc2")
    if shape.add_bias_linear:
        yield Weight("fc1 bias", g * f, SPLIT)
        yield Weight("fc2 bias", h, COPIED)
    if shape.norms_extra:
        yield Weight("norm behind mlp", _norm(shape, h), COPIED)


def gates(shape: Shape) -> int:
    """Times the feed-forward width that the first linear layer puts out."""
    return 2 if shape.gated_linear_unit else 1


def _experts(shape: Shape) -> Iterator[Weight]:
    h, f, g, e = shape.hidden_size, shape.moe_ffn_hidden_size, gates(shape), shape.num_moe_experts
    width = shape.moe_latent_size or h
    yield Weight("mlp norm", _norm(shape, h), COPIED)
    yield Weight("router", e * h, COPIED)
    if shape.router_linear_bias or shape.add_bias_linear:
        yield Weight("router bias", e, COPIED)
    if shape.moe_latent_size:
        yield Weight("latent down and up", 2 * h * shape.moe_latent_size, COPIED)
    yield Weight("experts' fc1", e * width * g * f, EXPERT, "linear_fc1")
    yield Weight("experts' fc2", e * f * width, EXPERT, "linear_fc2")
    if shape.add_bias_linear:
        yield Weight("experts' fc1 bias", e * g * f, EXPERT)
        yield Weight("experts' fc2 bias", e * width, EXPERT)
    shared = shape.moe_shared_expert_intermediate_size
    if shared:
        yield Weight("shared experts' fc1", h * g * shared, SPLIT, "linear_fc1")
        yield Weight("shared experts' fc2", shared * h, SPLIT, "linear_fc2")
        if shape.add_bias_linear:
            yield Weight("shared experts' fc1 bias", g * shared, SPLIT)
            yield Weight("shared experts' fc2 bias", h, COPIED)
        if shape.moe_shared_expert_gate:
            yield Weight("shared experts' gate", h, COPIED)
    if shape.norms_extra:
        yield Weight("norm behind mlp", _norm(shape, h), COPIED)


def mamba_width(shape: Shape) -> int:
    """Inner width of a Mamba layer."""
    return shape.mamba_num_heads * shape.mamba_head_dim


def _mamba(shape: Shape) -> Iterator[Weight]:
    h, d, heads = shape.hidden_size, mamba_width(shape), shape.mamba_num_heads
    states = 2 * shape.mamba_num_groups * shape.mamba_state_dim
    yield Weight("mamba norm", _norm(shape, h), COPIED)
    yield Weight("in_proj", h * (2 * d + states + heads), SPLIT, "in_proj")
    yield Weight("convolution", (d + states) * (_CONVOLUTION + 1), SPLIT)
    yield Weight("A, D and dt bias", 3 * heads, SPLIT)
    yield Weight("gated norm", d, SPLIT)
    yield Weight("out_proj", d * h, SPLIT, "out_proj")


def delta_widths(shape: Shape) -> tuple[int, int]:
    """Width of all keys and of all values of a gated delta net."""
    return shape.linear_num_key_heads * shape.linear_key_head_dim, shape.linear_num_value_heads * shape.linear_value_head_dim


def _delta(shape: Shape) -> Iterator[Weight]:
    h, (k, v), heads = shape.hidden_size, delta_widths(shape), shape.linear_num_value_heads
    yield Weight("delta net norm", _norm(shape, h), COPIED)
    yield Weight("in_proj", h * (2 * k + 2 * v + 2 * heads), SPLIT, "in_proj")
    yield Weight("convolution", (2 * k + v) * _CONVOLUTION, SPLIT)
    yield Weight("A and dt bias", 2 * heads, SPLIT)
    yield Weight("gated norm", shape.linear_value_head_dim, COPIED)
    yield Weight("out_proj", v * h, SPLIT, "out_proj")


@lru_cache(maxsize=512)
def layer_weights(shape: Shape, kind: str, release: tuple[int, int] = (0, 6)) -> tuple[Weight, ...]:
    """The weights of one layer of a kind."""
    found: list[Weight] = []
    mixer, forward = kind[0], kind[1]
    if mixer == ATTENTION:
        found += _attention(shape)
    elif mixer == LATENT:
        found += _latent(shape, release)
    elif mixer == MAMBA:
        found += _mamba(shape)
    elif mixer == DELTA:
        found += _delta(shape)
    if forward == MLP:
        found += _mlp(shape)
    elif forward == EXPERTS:
        found += _experts(shape)
    return tuple(found)


def adapter_width(weight: Weight, shape: Shape, width_in: int) -> int:
    """Outer widths of a low-rank pair beside a weight of `width_in` inputs: in plus out, a parameter for each of its ranks."""
    return width_in + weight.count // max(1, width_in * (shape.num_moe_experts if weight.split == EXPERT else 1))


def input_width(weight: Weight, shape: Shape, kind: str) -> int:
    """Inputs of the linear module that a weight belongs to."""
    h = shape.hidden_size
    if weight.name.endswith("fc2"):
        if weight.split == EXPERT:
            return shape.moe_ffn_hidden_size
        return shape.moe_shared_expert_intermediate_size if "shared" in weight.name else shape.ffn_hidden_size
    if weight.name == "experts' fc1":
        return shape.moe_latent_size or h
    if weight.name == "projection":
        return query_width(shape) if kind[0] == ATTENTION else shape.num_attention_heads * shape.v_head_dim
    if weight.name == "q up":
        return shape.q_lora_rank
    if weight.name == "kv up":
        return shape.kv_lora_rank
    if weight.name == "out_proj":
        return mamba_width(shape) if kind[0] == MAMBA else delta_widths(shape)[1]
    return h


def _per_rank(weight: Weight, setup: Setup) -> float:
    if weight.split == SPLIT:
        return weight.count / setup.tp
    if weight.split == EXPERT:
        bias = weight.name == "experts' fc2 bias"
        return weight.count / setup.ep / (1 if bias else setup.etp)
    return weight.count


def _adapter(weight: Weight, setup: Setup, lora: Lora, kind: str) -> Count:
    """Adapter of one linear module on one rank.

    Beside a column parallel layer the inner matrix is column parallel as well and the outer one too; beside a row parallel
    one the inner is row parallel, the outer column parallel: both are divided by TP. The same beside the down
    projections of latent attention, which are copies themselves. Source: Megatron-Bridge `peft/utils.py`, `ParallelLinearAdapter` (0.3 to 0.6).
    """
    width = input_width(weight, setup.shape, kind)
    pairs = adapter_width(weight, setup.shape, width) * lora.dim
    if weight.split == EXPERT:
        return Count(expert=pairs / setup.etp, expert_trained=pairs / setup.etp)
    return Count(split=pairs / setup.tp, dense_trained=pairs / setup.tp)


@lru_cache(maxsize=2048)
def layer_count(setup: Setup, kind: str) -> Count:
    """Parameters of one layer on one rank."""
    total, lora = Count(), setup.lora
    trained = 0 if lora else 1
    for weight in layer_weights(setup.shape, kind, setup.release):
        count = _per_rank(weight, setup)
        if weight.split == EXPERT:
            total += Count(expert=count, expert_trained=count * trained)
        else:
            split = weight.split == SPLIT
            total += Count(split=count if split else 0, copied=0 if split else count, dense_trained=count * trained)
        if lora is not None and weight.module in lora.targets:
            total += _adapter(weight, setup, lora, kind)
    return total


def mtp_count(setup: Setup) -> Count:
    """Parameters of the multi-token prediction depths on one rank; depths that share their weights count once."""
    shape = setup.shape
    depths = 1 if shape.mtp_shared else shape.mtp_num_layers
    h = shape.hidden_size
    norms, projection = 3 * _norm(shape, h), 2 * h * h / setup.tp
    total = Count(projection, norms, 0, 0 if setup.lora else norms + projection)
    for kind in mtp_kinds(shape):
        total += layer_count(setup, kind)
    return total.times(depths)


def ends_count(setup: Setup, chunk: Chunk) -> Count:
    """Embedding, final norm and output layer of a chunk on one rank."""
    shape, tables, copied = setup.shape, 0, 0
    if chunk.embedding:
        tables += 1
        copied += shape.positions * shape.hidden_size
    if chunk.loss:
        copied += _norm(shape, shape.hidden_size)
        tables += not (chunk.embedding and shape.share_embeddings_and_output_weights)
    if chunk.mtp and not chunk.embedding and not (chunk.loss and shape.share_embeddings_and_output_weights):
        tables += 1  # the depths embed their tokens with a copy of the table
    split = tables * setup.vocab * shape.hidden_size / setup.tp
    return Count(split, copied, 0, 0 if setup.lora else split + copied)


def chunk_count(setup: Setup, chunk: Chunk) -> Count:
    """Parameters of one chunk on one rank."""
    total = ends_count(setup, chunk)
    for kind in dict.fromkeys(chunk.layers):
        total += layer_count(setup, kind).times(chunk.layers.count(kind))
    return total + mtp_count(setup) if chunk.mtp else total


def stage_count(setup: Setup, stage: int) -> Count:
    """Parameters of one rank of a pipeline stage."""
    total = Count()
    for chunk in chunks(setup)[stage]:
        total += chunk_count(setup, chunk)
    return total


def total(shape: Shape, release: tuple[int, int] = (0, 4)) -> int:
    """Parameters of the text model, all ranks together, with the model's own vocabulary and no adapter.

    Latent attention without a low-rank query has a further norm from 0.6 on, which no published model has: the count of an
    earlier release is the published one.
    """
    setup = Setup(shape, release=release)
    found = Count()
    for kind in layer_kinds(shape):
        found += layer_count(setup, kind)
    if shape.mtp_num_layers:
        found += mtp_count(setup)
    chunk = chunks(setup)[0][0]
    return int((found + ends_count(setup, chunk)).all)
