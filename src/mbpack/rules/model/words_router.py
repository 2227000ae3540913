"""What the router of an expert layer accepts: load balancing, capacity, padding, top-k, groups, expert bias."""

from __future__ import annotations

from mbpack.config.run import Run
from mbpack.rules.base import Fix, Rule, set_to
from mbpack.rules.worded import Said, Worded

INIT = "TransformerConfig.__post_init__"
MOE = "recipe=qwen3_30b_a3b_sft_config gpus=16"
PADDING = ("model.moe_router_padding_for_quantization", "model.moe_router_padding_for_fp8")
_GROUPS = "The router chooses groups of equal size first, then experts inside them."


def _coefficients(run: Run) -> str:
    kinds, held = run.maybe("model.moe_router_load_balancing_type"), run.maybe("model.moe_aux_loss_coeff")
    count = len(kinds) if isinstance(kinds, list) else 0
    found = f"a list of {len(held)}" if isinstance(held, list) else f"{held}"
    return f"{count} kinds of load balancing need {count} coefficients in moe_aux_loss_coeff, found {found}"


def _no_padding(run: Run) -> Fix:
    on = [key for key in PADDING if run.maybe(key)]
    return Fix(" and ".join(f"{key[6:]}: false" for key in on), set_to(run, *((key, False) for key in on)), safe=True)


def _fewer_groups(run: Run) -> Fix:
    groups = run.maybe("model.moe_router_num_groups")
    wanted = groups if isinstance(groups, int) and groups > 0 else None
    title = f"moe_router_group_topk: {'null' if wanted is None else wanted}"
    return Fix(title, set_to(run, ("model.moe_router_group_topk", wanted)))


def _uneven_groups(run: Run) -> str:
    experts = run.maybe("model.num_moe_experts")
    if experts is None:
        return "moe_router_group_topk on a dense model"
    return f"{experts} experts cannot be split into {run.maybe('model.moe_router_num_groups')} groups"


RULES: tuple[Rule, ...] = (
    Worded(
        "MOE108",
        "moe/load-balancing",
        INIT,
        "Several kinds of load balancing need as many coefficients, and an expert capacity works with some kinds only.",
        {
            "moe_aux_loss_coeff+moe_router_load_balancing_type": Said(
                _coefficients,
                "moe_aux_loss_coeff moe_router_load_balancing_type",
                "Each kind adds its own loss with its own weight.",
                "moe_aux_loss_coeff: a list with a number for each kind",
            ),
            "moe_router_load_balancing_type": Said(
                "moe_expert_capacity_factor does not work with {moe_router_load_balancing_type} load balancing",
                "moe_expert_capacity_factor moe_router_load_balancing_type",
                "It works with aux_loss, seq_aux_loss, global_aux_loss and none; others assign tokens without a capacity.",
                {"moe_expert_capacity_factor": None},
            ),
            "moe_expert_capacity_factor if moe_pad_expert_input_to_capacity": Said(
                "moe_pad_expert_input_to_capacity needs moe_expert_capacity_factor",
                "moe_pad_expert_input_to_capacity moe_expert_capacity_factor",
                "Without a factor no expert has a capacity to pad to.",
                {"moe_pad_expert_input_to_capacity": False},
            ),
        },
        {"moe_router_load_balancing_type": ["aux_loss", "seq_aux_loss"]},
        {"moe_pad_expert_input_to_capacity": True},
        on=MOE,
        good={"moe_aux_loss_coeff": [0.001, 0.0001]},
        text="A capacity factor excludes `sinkhorn`; a negative one counts as none.",
    ),
    Worded(
        "MOE109",
        "moe/router-padding",
        INIT,
        "Padding the routing map is for FP8 and FP4, and not every dispatcher does it.",
        {
            "fp4+fp8 if moe_router_padding_for_quantization": Said(
                "{=moe_router_padding_for_quantization} needs FP8 or FP4",
                " ".join((*PADDING, "mixed_precision")),
                "The padding aligns the tokens of an expert for quantised matrix products; BF16 needs none.",
                _no_padding,
            ),
            "moe_token_dispatcher_type=allgather=alltoall_seq if moe_router_padding_for_quantization": Said(
                "the {moe_token_dispatcher_type} dispatcher does not support padding the routing map",
                " ".join((*PADDING, "moe_token_dispatcher_type")),
                fix=_no_padding,
            ),
        },
        {"moe_router_padding_for_quantization": True},
        on=MOE,
        good={"moe_router_padding_for_quantization": False},
        text="`moe_router_padding_for_fp8` is the former name of `moe_router_padding_for_quantization` and switches it on.",
        only_with="moe_router_padding_for_quantization moe_router_padding_for_fp8",
    ),
    Worded(
        "MOE110",
        "moe/router-topk",
        INIT,
        "One expert a token with softmax scores needs the softmax before the choice.",
        {
            "moe_router_load_balancing_type+moe_router_pre_softmax+moe_router_score_function+moe_router_topk": Said(
                "moe_router_topk 1 with softmax scores needs moe_router_pre_softmax: true",
                "moe_router_topk moe_router_score_function moe_router_pre_softmax",
                "A softmax over the one chosen score is always 1, so the router would get no gradient.",
                {"moe_router_pre_softmax": True},
            )
        },
        {"moe_router_topk": 1, "moe_router_pre_softmax": False},
        on=MOE,
    ),
    Worded(
        "MOE111",
        "moe/router-groups",
        INIT,
        "Routing limited to groups needs a number of groups that divides the experts and is not below the groups a token takes.",
        {
            "moe_router_topk_limited_devices": Said(
                "moe_router_topk_limited_devices is the former way to say moe_router_group_topk; both are set",
                "moe_router_topk_limited_devices moe_router_group_topk",
                _GROUPS,
                {"moe_router_topk_limited_devices": None},
            ),
            "moe_router_num_groups": Said(
                "moe_router_group_topk needs moe_router_num_groups",
                "moe_router_group_topk moe_router_num_groups",
                _GROUPS,
                {"moe_router_group_topk": None},
            ),
            "moe_router_num_groups+num_moe_experts": Said(
                _uneven_groups,
                "num_moe_experts moe_router_num_groups moe_router_group_topk",
                _GROUPS,
                "groups that divide the experts",
            ),
            "moe_router_group_topk+moe_router_num_groups": Said(
                "moe_router_group_topk {moe_router_group_topk} is above moe_router_num_groups {moe_router_num_groups}",
                "moe_router_group_topk moe_router_num_groups",
                _GROUPS,
                _fewer_groups,
            ),
        },
        {"moe_router_group_topk": 2, "moe_router_num_groups": 3},
        {"moe_router_group_topk": 8, "moe_router_num_groups": 4},
        on=MOE,
        good={"moe_router_num_groups": 4},
    ),
    Worded(
        "MOE112",
        "moe/expert-bias",
        INIT,
        "A bias of the experts, which balances load without a loss, needs sigmoid scores.",
        {
            "moe_router_enable_expert_bias+moe_router_score_function": Said(
                "moe_router_enable_expert_bias does not go with {moe_router_score_function} scores",
                "moe_router_enable_expert_bias moe_router_score_function",
                "The bias is added to scores that do not depend on each other, as sigmoid makes them; a softmax couples them.",
                {"moe_router_enable_expert_bias": False},
            )
        },
        {"moe_router_enable_expert_bias": True},
        on=MOE,
        good={"moe_router_score_function": "sigmoid"},
        text="From 0.5 on `sqrtsoftplus` scores go with it as well.",
    ),
)
