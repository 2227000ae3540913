"""What the router of an expert layer accepts: load balancing, capacity, padding, top-k, groups, expert bias."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.precision import SECTION, precision_field
from mbpack.config.run import Run
from mbpack.facts.expert_settings import CAPACITY_BALANCING, UNPADDED_DISPATCHERS, bias_scores
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words
from mbpack.rules.stated import stated, stated_number, touched

BALANCING, COEFFICIENT = "model.moe_router_load_balancing_type", "model.moe_aux_loss_coeff"
CAPACITY, PAD_TO_CAPACITY = "model.moe_expert_capacity_factor", "model.moe_pad_expert_input_to_capacity"
PADDING, OLD_PADDING = "model.moe_router_padding_for_quantization", "model.moe_router_padding_for_fp8"
DISPATCHER = "model.moe_token_dispatcher_type"
TOPK, SCORE, PRE_SOFTMAX = "model.moe_router_topk", "model.moe_router_score_function", "model.moe_router_pre_softmax"
GROUP_TOPK, GROUPS, DEVICES = (f"model.moe_router_{name}" for name in ("group_topk", "num_groups", "topk_limited_devices"))
EXPERTS, BIAS = "model.num_moe_experts", "model.moe_router_enable_expert_bias"


class LoadBalancing(RejectingRule):
    """Several kinds of load balancing need as many coefficients, and an expert capacity works with some kinds only.

    A list in `moe_router_load_balancing_type` needs a list of the same length in `moe_aux_loss_coeff`. A capacity factor excludes
    `sinkhorn`, and padding to the capacity needs a factor; a negative one counts as none.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_load_balancing_type: [aux_loss, seq_aux_loss]}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_pad_expert_input_to_capacity: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_load_balancing_type: [aux_loss, seq_aux_loss], moe_aux_loss_coeff: [0.001, 0.0001]}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE108", "moe/load-balancing"

    def check(self, run: Run) -> Iterator[Finding]:
        if touched(run, BALANCING, COEFFICIENT):
            yield from self._coefficients(run)
        if touched(run, BALANCING, CAPACITY):
            yield from self._capacity(run)
        if touched(run, CAPACITY, PAD_TO_CAPACITY) and stated(run, PAD_TO_CAPACITY, False):
            factor = stated_number(run, CAPACITY)
            if factor is None or factor < 0:
                yield self.finding(
                    run,
                    REJECTED,
                    PAD_TO_CAPACITY,
                    "moe_pad_expert_input_to_capacity needs moe_expert_capacity_factor",
                    why="Without a factor no expert has a capacity to pad to.",
                    related=(CAPACITY,),
                    fix=Fix("moe_pad_expert_input_to_capacity: false", set_to(run, (PAD_TO_CAPACITY, False))),
                )

    def _coefficients(self, run: Run) -> Iterator[Finding]:
        kinds = stated(run, BALANCING)
        if not isinstance(kinds, list):
            return
        held = stated(run, COEFFICIENT)
        if isinstance(held, list) and len(held) == len(kinds):
            return
        found = f"a list of {len(held)}" if isinstance(held, list) else f"{held}"
        yield self.finding(
            run,
            REJECTED,
            COEFFICIENT if run.wrote(COEFFICIENT) else BALANCING,
            f"{len(kinds)} kinds of load balancing need {len(kinds)} coefficients in moe_aux_loss_coeff, found {found}",
            why="Each kind adds its own loss with its own weight.",
            related=(BALANCING, COEFFICIENT),
            fix=Fix(f"moe_aux_loss_coeff: a list of {len(kinds)} numbers"),
        )

    def _capacity(self, run: Run) -> Iterator[Finding]:
        if stated_number(run, CAPACITY) is None:
            return
        kinds = stated(run, BALANCING)
        wrong = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind not in CAPACITY_BALANCING]
        if wrong:
            yield self.finding(
                run,
                REJECTED,
                CAPACITY if run.wrote(CAPACITY) else BALANCING,
                f"moe_expert_capacity_factor works with {words(CAPACITY_BALANCING, 'or')} load balancing, found {wrong[0]}",
                why="Other kinds of balancing assign tokens without a capacity.",
                related=(BALANCING, CAPACITY),
                fix=Fix("moe_expert_capacity_factor: null", set_to(run, (CAPACITY, None))),
            )


class RouterPadding(RejectingRule):
    """Padding the routing map is for FP8 and FP4, and not every dispatcher does it.

    `moe_router_padding_for_fp8` is the former name of `moe_router_padding_for_quantization` and switches it on.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_padding_for_quantization: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    mixed_precision: bf16_with_fp8_current_scaling_mixed
    model: {moe_router_padding_for_quantization: true}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE109", "moe/router-padding"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, PADDING, OLD_PADDING, DISPATCHER, SECTION, "model.fp8", "model.fp4"):
            return
        key = next((name for name in (PADDING, OLD_PADDING) if stated(run, name, False)), None)
        if key is None:
            return
        name = key.rpartition(".")[2]
        fix = Fix(f"{name}: false", set_to(run, *((other, False) for other in (PADDING, OLD_PADDING) if run.flag(other))))
        if precision_field(run, "fp8") is None and precision_field(run, "fp4") is None:
            yield self.finding(
                run,
                REJECTED,
                key,
                f"{name} needs FP8 or FP4",
                why="The padding aligns the tokens of an expert for quantised matrix products; BF16 needs none.",
                related=(SECTION,),
                fix=fix._replace(safe=True),
            )
        dispatcher = stated(run, DISPATCHER)
        if dispatcher in UNPADDED_DISPATCHERS:
            yield self.finding(
                run,
                REJECTED,
                key,
                f"the {dispatcher} dispatcher does not support {name}",
                related=(DISPATCHER,),
                fix=fix,
            )


class RouterTopk(RejectingRule):
    """One expert a token with softmax scores needs the softmax before the choice.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_topk: 1, moe_router_pre_softmax: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_topk: 1, moe_router_pre_softmax: true}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE110", "moe/router-topk"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, TOPK, SCORE, PRE_SOFTMAX, BALANCING) or stated(run, TOPK) != 1:
            return
        if stated(run, PRE_SOFTMAX, False) or stated(run, SCORE) != "softmax" or stated(run, BALANCING) == "sinkhorn":
            return
        yield self.finding(
            run,
            REJECTED,
            next((key for key in (TOPK, SCORE, PRE_SOFTMAX) if run.wrote(key)), TOPK),
            "moe_router_topk 1 with softmax scores needs moe_router_pre_softmax: true",
            why="A softmax over the one chosen score is always 1, so the router would get no gradient.",
            related=(TOPK, SCORE, PRE_SOFTMAX),
            fix=Fix("moe_router_pre_softmax: true", set_to(run, (PRE_SOFTMAX, True))),
        )


class RouterGroups(RejectingRule):
    """Routing limited to groups needs a number of groups that divides the experts and is not below the groups a token takes.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_group_topk: 2, moe_router_num_groups: 3}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_group_topk: 8, moe_router_num_groups: 4}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_group_topk: 2, moe_router_num_groups: 4}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE111", "moe/router-groups"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, GROUP_TOPK, GROUPS, DEVICES, EXPERTS) or not stated(run, GROUP_TOPK):
            return
        off = Fix("moe_router_group_topk: null", set_to(run, (GROUP_TOPK, None)))
        if stated(run, DEVICES):
            message = "moe_router_topk_limited_devices is the former way to say moe_router_group_topk; both are set"
            fix = Fix("moe_router_topk_limited_devices: null", set_to(run, (DEVICES, None)))
            yield self._refuse(run, DEVICES, message, (GROUP_TOPK,), fix)
        if not stated(run, GROUPS):
            yield self._refuse(run, GROUP_TOPK, "moe_router_group_topk needs moe_router_num_groups", (GROUPS,), off)
            return
        groups, experts, topk = (stated_number(run, key) for key in (GROUPS, EXPERTS, GROUP_TOPK))
        if experts is None:
            yield self._refuse(run, GROUP_TOPK, "moe_router_group_topk on a dense model", (GROUPS, EXPERTS), off)
            return
        place = GROUPS if run.wrote(GROUPS) else GROUP_TOPK
        if experts % groups:
            message = f"{experts} experts cannot be split into {groups} groups"
            yield self._refuse(
                run, EXPERTS if run.wrote(EXPERTS) else place, message, (GROUPS,), Fix("groups that divide the experts")
            )
        if topk > groups:
            message = f"moe_router_group_topk {topk} is above moe_router_num_groups {groups}"
            fix = Fix(f"moe_router_group_topk: {groups}", set_to(run, (GROUP_TOPK, groups))) if groups > 0 else off
            yield self._refuse(run, GROUP_TOPK, message, (GROUPS,), fix)

    def _refuse(self, run: Run, key: str, message: str, related: tuple[str, ...], fix: Fix) -> Finding:
        why = "The router chooses groups of equal size first, then experts inside them."
        return self.finding(run, REJECTED, key, message, why=why, related=related, fix=fix)


class ExpertBias(RejectingRule):
    """A bias of the experts, which balances load without a loss, needs sigmoid scores.

    From 0.5 on `sqrtsoftplus` scores go with it as well.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_enable_expert_bias: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_router_enable_expert_bias: true, moe_router_score_function: sigmoid}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE112", "moe/expert-bias"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, BIAS, SCORE) or not stated(run, BIAS, False):
            return
        score, fine = stated(run, SCORE), bias_scores(run.release)
        if score not in fine:
            yield self.finding(
                run,
                REJECTED,
                BIAS if run.wrote(BIAS) else SCORE,
                f"moe_router_enable_expert_bias needs {words(fine, 'or')} scores, found {score}",
                why="The bias is added to scores that do not depend on each other; a softmax couples them.",
                related=(BIAS, SCORE),
                fix=Fix("moe_router_enable_expert_bias: false", set_to(run, (BIAS, False))),
            )


RULES: tuple[Rule, ...] = (LoadBalancing(), RouterPadding(), RouterTopk(), RouterGroups(), ExpertBias())
