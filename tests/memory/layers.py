"""What real layers keep, on record, and the set-up each case stands for.

`tests/data/memory/layers.jsonl`: its first line holds the tokens a row and the fields all cases start from; every other
line a case with the fields that differ and, under `measured`, [releases and TP, bytes kept, parameters, trained]. Measured
on the CPU with the packages of each release and Transformer Engine 2.17.1, whose compiled extension was replaced; the cos
and sin of unfused rotary embedding (8 bytes x head dimension a token) are taken off.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mbpack.facts.shapes import Shape
from mbpack.memory import ledger
from mbpack.memory.layers import chunks
from mbpack.memory.parameters import Count, layer_count, stage_count
from mbpack.memory.rows import Rows
from mbpack.memory.setup import Entropy, Lora, Recompute, Setup

DATA = Path(__file__).resolve().parent.parent / "data" / "memory" / "layers.jsonl"
#: Fields of a case that a shape has under the same name.
SAME = (
    "hidden_size num_attention_heads num_query_groups kv_channels ffn_hidden_size gated_linear_unit normalization "
    "add_bias_linear add_qkv_bias qk_layernorm attention_output_gate moe_router_topk moe_ffn_hidden_size "
    "moe_shared_expert_intermediate_size moe_shared_expert_gate multi_latent_attention kv_lora_rank qk_head_dim "
    "qk_pos_emb_head_dim v_head_dim"
).split()


class Measured(NamedTuple):
    """One measurement: case, release and tensor parallel size, what was kept in bytes, parameters of the rank."""

    case: str
    what: str
    release: str
    tp: int
    setup: Setup
    kept: int
    parameters: int
    trained: int

    def rows(self) -> Rows:
        chunk = chunks(self.setup)[0][0]
        found = Rows()
        if self.what == "layer":
            found.add(ledger.layer(self.setup, chunk.layers[0], True, 1.0)[0])
        else:
            found.add(ledger.kept(self.setup, chunk))
            found.add(ledger.once(self.setup, chunk))
        return found

    def count(self) -> Count:
        if self.what == "layer":
            return layer_count(self.setup, chunks(self.setup)[0][0].layers[0])
        return stage_count(self.setup, 0)


@functools.cache
def measurements() -> tuple[Measured, ...]:
    return tuple(_read())


def _read() -> Iterator[Measured]:
    head, *lines = DATA.read_text().splitlines()
    first = json.loads(head)
    for line in lines:
        record = json.loads(line)
        fields = first["base"] | record["config"]
        for places, kept, parameters, trained in record["measured"]:
            for place in places:
                release, tp = place.split(" tp")
                setup = _setup(record, fields, release, int(tp), first["tokens"])
                yield Measured(record["case"], record["what"], release, int(tp), setup, kept, parameters, trained)


def _shape(record: dict[str, Any], fields: dict[str, Any]) -> Shape:
    model = record.get("model", {})
    return Shape(
        name=record["case"],
        num_layers=fields["num_layers"] if record["what"] == "model" else 1,
        vocab_size=model.get("vocab_size", 0),
        share_embeddings_and_output_weights=model.get("share_embeddings_and_output_weights", False),
        activation=fields["activation_func"].removesuffix("2"),
        activation_clamped="activation_func_clamp_value" in fields,
        num_moe_experts=fields.get("num_moe_experts") or 0,
        q_lora_rank=fields.get("q_lora_rank") or 0,
        moe_latent_size=fields.get("moe_latent_size") or 0,
        mtp_num_layers=fields.get("mtp_num_layers") or 0,
        **{name: fields[name] for name in SAME if name in fields},
    )


def _setup(record: dict[str, Any], fields: dict[str, Any], release: str, tp: int, tokens: int) -> Setup:
    major, minor = map(int, release.split("."))
    granularity = fields.get("recompute_granularity")
    full = Recompute.UNIFORM if fields.get("recompute_method") == "uniform" else Recompute.BLOCK
    lora = record.get("lora")
    return Setup(
        _shape(record, fields),
        gpus=tp,
        tp=tp,
        sp=fields.get("sequence_parallel", True) and tp > 1,
        length=tokens,
        release=(major, minor),
        recompute={None: Recompute.NONE, "selective": Recompute.SELECTIVE}.get(granularity, full),
        recompute_layers=fields.get("recompute_num_layers") or 1,
        modules=frozenset(fields.get("recompute_modules", ()) if granularity == "selective" else ()),
        entropy=Entropy.FUSED if fields.get("cross_entropy_loss_fusion") else Entropy.UNFUSED,
        activation_fused=fields.get("bias_activation_fusion", False),
        squared_relu_fused=fields.get("use_fused_weighted_squared_relu", False),
        dropout=fields.get("hidden_dropout", 0) > 0,
        mask_bytes=2,  # a mask on the CPU has the type of its tensor, on a GPU it is a byte
        router_fp32=fields.get("moe_router_dtype") == "fp32",
        router_pre_softmax=fields.get("moe_router_pre_softmax", False),
        router_sigmoid=fields.get("moe_router_score_function") == "sigmoid",
        aux_loss=fields["moe_router_load_balancing_type"] if fields.get("moe_aux_loss_coeff") else "",
        router_z_loss="moe_z_loss_coeff" in fields,
        router_groups=fields.get("moe_router_num_groups") or 0,
        router_group_topk=fields.get("moe_router_group_topk") or 0,
        allgather=fields.get("moe_token_dispatcher_type") == "allgather",
        shared_overlap=fields.get("moe_shared_expert_overlap", False),
        lora=None if lora is None else _lora(lora),
    )


def _lora(given: dict[str, Any]) -> Lora:
    targets = frozenset(given["target_modules"])
    return Lora(given["dim"], targets, given.get("sequence_parallel_input_regather", False), given["dropout"] > 0)
