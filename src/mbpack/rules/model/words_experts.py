"""Sizes of an expert layer, what its dispatcher accepts, and its memory."""

from __future__ import annotations

from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import Rule
from mbpack.rules.model.words_router import INIT, MOE
from mbpack.rules.worded import Said, Worded

_DEEPEP = "moe_enable_deepep is the former way to choose the backend deepep of the flex dispatcher."
_WIDTH = Said(
    "moe_ffn_hidden_size is {moe_ffn_hidden_size} without experts",
    "moe_ffn_hidden_size num_moe_experts",
    "It is the width of one expert, and num_moe_experts is null.",
    {"moe_ffn_hidden_size": None},
    safe=True,
)
_RANK = "The buffer of a rank is bounded by the backend and the fused operations that read it."


_FUSER = Said(
    "moe_expert_rank_capacity_factor needs use_transformer_engine_op_fuser: true",
    "moe_expert_rank_capacity_factor use_transformer_engine_op_fuser",
    _RANK,
    {"moe_expert_rank_capacity_factor": None},
)

RULES: tuple[Rule, ...] = (
    Worded(
        "MOE113",
        "moe/expert-count",
        INIT,
        "The number of experts is positive or null, and a width of experts needs experts.",
        {
            "num_moe_experts": Said(
                "num_moe_experts is {num_moe_experts}; a dense model says null",
                "num_moe_experts",
                "The start-up takes any number for a model with experts and refuses one below 1.",
                {"num_moe_experts": None},
            ),
            "moe_ffn_hidden_size if num_moe_experts": _WIDTH,
            "moe_layer_freq if moe_ffn_hidden_size+num_moe_experts": _WIDTH,
        },
        {"moe_ffn_hidden_size": 1024},
        text="From 0.5 on a model whose `moe_layer_freq` leaves some layers dense may keep the width without experts.",
        good={"moe_ffn_hidden_size": None},
    ),
    Worded(
        "MOE114",
        "moe/shared-experts",
        INIT,
        "Shared experts have a positive width, and overlap with dispatchers that travel between all ranks.",
        {
            "moe_shared_expert_intermediate_size": Said(
                "moe_shared_expert_intermediate_size is {moe_shared_expert_intermediate_size}; a model without shared experts says null",
                "moe_shared_expert_intermediate_size",
                "It is the width of all shared experts together.",
                {"moe_shared_expert_intermediate_size": None},
            ),
            "moe_shared_expert_overlap+moe_token_dispatcher_type": Said(
                "moe_shared_expert_overlap does not work with dispatcher {moe_token_dispatcher_type}",
                "moe_shared_expert_overlap moe_token_dispatcher_type",
                "The shared experts compute while tokens are exchanged: alltoall does that and, from 0.5 on, flex.",
                {"moe_shared_expert_overlap": False},
                safe=True,
            ),
        },
        {"moe_shared_expert_intermediate_size": 0},
        {
            "moe_shared_expert_intermediate_size": 512,
            "moe_shared_expert_overlap": True,
            "moe_token_dispatcher_type": "allgather",
        },
        on=MOE,
    ),
    Worded(
        "MOE115",
        "moe/dispatcher",
        INIT,
        "DeepEP is a backend of the flex dispatcher, the only one at a time, and does not pad to the expert capacity.",
        {
            "moe_token_dispatcher_type=flex if moe_enable_deepep": Said(
                "moe_enable_deepep needs moe_token_dispatcher_type flex, found {moe_token_dispatcher_type}",
                "moe_enable_deepep moe_token_dispatcher_type",
                _DEEPEP,
                {"moe_enable_deepep": False},
            ),
            "moe_flex_dispatcher_backend=hybridep if moe_enable_deepep": Said(
                "moe_enable_deepep excludes moe_flex_dispatcher_backend hybridep",
                "moe_enable_deepep moe_flex_dispatcher_backend",
                _DEEPEP,
                {"moe_enable_deepep": False},
            ),
            "moe_enable_deepep+moe_flex_dispatcher_backend+moe_pad_expert_input_to_capacity": Said(
                "DeepEP does not support moe_pad_expert_input_to_capacity",
                "moe_pad_expert_input_to_capacity moe_token_dispatcher_type moe_flex_dispatcher_backend",
                "Its buffers hold the tokens of each expert without padding.",
                {"moe_pad_expert_input_to_capacity": False},
            ),
        },
        {"moe_enable_deepep": True, "moe_token_dispatcher_type": "alltoall"},
        on=MOE,
    ),
    Worded(
        "MOE116",
        "moe/num-sms",
        INIT,
        "The two former SM counts of the flex dispatcher must not differ unless the new one is set.",
        {
            "moe_deepep_num_sms+moe_hybridep_num_sms": Said(
                "moe_deepep_num_sms {moe_deepep_num_sms} and moe_hybridep_num_sms {moe_hybridep_num_sms} differ",
                "moe_deepep_num_sms moe_hybridep_num_sms",
                "Both are former names of moe_flex_dispatcher_num_sms, which is not set.",
                "moe_flex_dispatcher_num_sms with the number of the backend in use",
            )
        },
        {"moe_deepep_num_sms": 20, "moe_hybridep_num_sms": 16},
        on=MOE,
        good={"moe_hybridep_num_sms": 20},
        releases=(R06, NIGHTLY),
    ),
    Worded(
        "MOE117",
        "moe/rank-capacity",
        INIT,
        "A capacity of a whole rank needs a backend that knows it, and fused Transformer Engine operations with HybridEP.",
        {
            "moe_flex_dispatcher_backend=hybridep": Said(
                "moe_expert_rank_capacity_factor does not work with moe_flex_dispatcher_backend {moe_flex_dispatcher_backend}",
                "moe_expert_rank_capacity_factor moe_flex_dispatcher_backend",
                f"{_RANK} HybridEP knows it and, from 0.6 on, ncclep.",
                {"moe_expert_rank_capacity_factor": None},
            ),
            "use_transformer_engine_op_fuser if moe_expert_rank_capacity_factor": _FUSER,
            "moe_flex_dispatcher_backend+use_transformer_engine_op_fuser": _FUSER,
        },
        {"moe_expert_rank_capacity_factor": 1.0},
        on=MOE,
        releases=(R05, NIGHTLY),
    ),
)
