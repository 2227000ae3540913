"""Shapes of the models that recipes name, under Megatron-Core's field names.

The data lie in `data/shapes.tsv`, one model a line, found by a search for its name. Each line holds its parameters in
three numbers that a test compares: `computed` by the formulas of :mod:`mbpack.memory.parameters`, `published` by the
model's authors (safetensors total of its public page), and `beyond`, what the published count holds that is no parameter
of the text model in training, with its reason (router correction biases are buffers; a tied head stored twice).

A vision or audio encoder is no part of a shape. A name with "+" behind it is a model with one on top of this text part;
the number that follows says how many million parameters it has, by the model's public total.
"""

from __future__ import annotations

import functools
from typing import Any

from msgspec import Struct, structs

from mbpack.facts.schema import read_data


class Shape(Struct, frozen=True):
    """Sizes of a decoder. Names and meanings are those of Megatron-Core's TransformerConfig where it has them.

    `norms_extra`: norms a layer behind attention and MLP (Gemma 2 and 3: 2). `dense_first`: layers without experts in
    front of those with (DeepSeek); `moe_layer_freq` instead, 1 for a layer with experts, where they alternate.
    `positions`: rows of a learned position table. `qk_norm_whole`: q and k norms over the whole projection (OLMoE)
    instead of one head. `linear_attention_freq`: every n-th layer has full attention, the others a gated delta net.
    `hybrid_layer_pattern`: a letter a layer, M Mamba, * attention, - MLP, E experts, G gated delta net.
    `encoder`: parameters of an encoder on top that is not modelled, 0 where their number is not known, None without one.
    `mtp_pattern`: the same for one multi-token prediction depth. `not_modelled`: what the fields leave out, "" if nothing.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_query_groups: int
    kv_channels: int
    ffn_hidden_size: int
    vocab_size: int
    hf_ids: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    gated_linear_unit: bool = True
    activation: str = "silu"
    activation_clamped: bool = False
    normalization: str = "RMSNorm"
    add_bias_linear: bool = False
    add_qkv_bias: bool = False
    qk_layernorm: bool = False
    qk_norm_whole: bool = False
    share_embeddings_and_output_weights: bool = False
    norms_extra: int = 0
    positions: int = 0
    attention_output_gate: bool = False
    softmax_offset_learnable: bool = False
    num_moe_experts: int = 0
    moe_router_topk: int = 0
    moe_ffn_hidden_size: int = 0
    moe_shared_expert_intermediate_size: int = 0
    moe_shared_expert_gate: bool = False
    moe_latent_size: int = 0
    router_linear_bias: bool = False
    dense_first: int = 0
    moe_layer_freq: tuple[int, ...] = ()
    multi_latent_attention: bool = False
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_head_dim: int = 0
    qk_pos_emb_head_dim: int = 0
    v_head_dim: int = 0
    mtp_num_layers: int = 0
    mtp_shared: bool = False
    mtp_pattern: str = ""
    linear_attention_freq: int = 0
    linear_num_key_heads: int = 0
    linear_num_value_heads: int = 0
    linear_key_head_dim: int = 0
    linear_value_head_dim: int = 0
    hybrid_layer_pattern: str = ""
    mamba_num_heads: int = 0
    mamba_head_dim: int = 64
    mamba_num_groups: int = 8
    mamba_state_dim: int = 128
    encoder: int | None = None
    not_modelled: str = ""
    computed: int = 0
    published: int = 0
    beyond: int = 0
    beyond_why: str = ""
    source: str = ""


#: Fields of a shape that Megatron-Core configurations have under the same name.
SIZES = frozenset(Shape.__struct_fields__) - {
    "name", "hf_ids", "classes", "computed", "published", "beyond", "beyond_why", "source", "encoder", "not_modelled",
}  # fmt: skip


@functools.cache
def _lines() -> tuple[list[str], dict[str, tuple[str, int | None]], dict[str, str]]:
    """Column names, the line of every model by its Hugging Face name in lower case, and by its provider class."""
    header, *lines = read_data("shapes.tsv").decode().splitlines()
    names = header.split("\t")
    by_id: dict[str, tuple[str, int | None]] = {}
    by_class: dict[str, str] = {}
    for line in lines:
        cells = line.split("\t", 3)
        for hf_id in filter(None, cells[1].split(",")):
            plain, plus, millions = hf_id.partition("+")
            by_id.setdefault(plain.lower(), (line, int(millions or 0) * 10**6 if plus else None))
        for cls in filter(None, cells[2].split(",")):
            by_class.setdefault(cls, line)
    return names, by_id, by_class


@functools.cache
def _types() -> dict[str, Any]:
    """The type of every field; asked once, since the answer takes a millisecond."""
    return {field.name: field.type for field in structs.fields(Shape)}


@functools.lru_cache(maxsize=128)
def _shape(line: str) -> Shape:
    names, _, _ = _lines()
    values: dict[str, Any] = {}
    types = _types()
    for name, cell in zip(names, line.split("\t"), strict=True):
        if name == "other":
            for pair in cell.split():
                key, _, text = pair.partition("=")
                values[key] = text
        elif cell:
            values[name] = cell
    for name, text in values.items():
        if name in ("hf_ids", "classes"):
            values[name] = tuple(word.partition("+")[0] for word in text.split(","))
        elif name == "moe_layer_freq":
            values[name] = tuple(map(int, text))
        elif types[name] == "int" or types[name] is int:
            values[name] = int(text)
        elif types[name] == "bool" or types[name] is bool:
            values[name] = text == "True"
    return Shape(**values)


def shape_of(hf_id: str | None, model_class: str | None = None) -> Shape | None:
    """The shape of a public model, by its Hugging Face name (any case), else by its provider class of Megatron-Bridge."""
    _, by_id, by_class = _lines()
    line, encoder = by_id.get(hf_id.lower(), (None, None)) if hf_id else (None, None)
    if line is None and model_class:
        line = by_class.get(model_class)
    if line is None:
        return None
    return _shape(line) if encoder is None else structs.replace(_shape(line), encoder=encoder)


def all_shapes() -> list[Shape]:
    """Every shape, in the order of the file."""
    return [_shape(line) for line in read_data("shapes.tsv").decode().splitlines()[1:]]
