"""Sizes of an expert layer and what its dispatcher accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Object, WrongKind
from mbpack.facts.expert_settings import rank_capacity_backends, shared_overlap_dispatchers
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words
from mbpack.rules.stated import stated, stated_number, touched

EXPERTS, WIDTH, FREQUENCY = "model.num_moe_experts", "model.moe_ffn_hidden_size", "model.moe_layer_freq"
SHARED, SHARED_OVERLAP = "model.moe_shared_expert_intermediate_size", "model.moe_shared_expert_overlap"
DISPATCHER, BACKEND = "model.moe_token_dispatcher_type", "model.moe_flex_dispatcher_backend"
DEEPEP, PAD_TO_CAPACITY = "model.moe_enable_deepep", "model.moe_pad_expert_input_to_capacity"
NUM_SMS, OLD_NUM_SMS = "model.moe_flex_dispatcher_num_sms", ("model.moe_deepep_num_sms", "model.moe_hybridep_num_sms")
RANK_CAPACITY, OP_FUSER = "model.moe_expert_rank_capacity_factor", "model.use_transformer_engine_op_fuser"


class ExpertCount(RejectingRule):
    """The number of experts is positive or null, and a width of experts needs experts.

    From 0.5 on a model whose `moe_layer_freq` leaves some layers dense may keep the width without experts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {moe_ffn_hidden_size: 1024}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {num_moe_experts: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_ffn_hidden_size: 1024, num_moe_experts: 64}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE113", "moe/expert-count"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, EXPERTS, WIDTH, FREQUENCY):
            return
        experts = stated_number(run, EXPERTS)
        if experts is not None:
            if experts <= 0:
                yield self.finding(
                    run,
                    REJECTED,
                    EXPERTS,
                    f"num_moe_experts is {experts}; a dense model says null",
                    why="The start-up takes any number for a model with experts and refuses one below 1.",
                    fix=Fix("num_moe_experts: null", set_to(run, (EXPERTS, None))),
                )
            return
        width = stated(run, WIDTH)
        if width is None or (run.release >= R05 and _some_dense(stated(run, FREQUENCY))):
            return
        yield self.finding(
            run,
            REJECTED,
            WIDTH if run.wrote(WIDTH) or not run.wrote(EXPERTS) else EXPERTS,
            f"moe_ffn_hidden_size is {width} without experts",
            why="It is the width of one expert, and num_moe_experts is null.",
            related=(EXPERTS, WIDTH),
            fix=Fix("moe_ffn_hidden_size: null", set_to(run, (WIDTH, None)), safe=True),
        )


def _some_dense(frequency: Any) -> bool:
    """Whether a frequency of expert layers leaves some layers dense."""
    return 0 in frequency if isinstance(frequency, list) else isinstance(frequency, int) and frequency > 1


class SharedExperts(RejectingRule):
    """Shared experts have a positive width, and overlap with dispatchers that travel between all ranks.

    Up to 0.4 the overlap works with the alltoall dispatcher only.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_shared_expert_intermediate_size: 0}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_shared_expert_intermediate_size: 512, moe_shared_expert_overlap: true, moe_token_dispatcher_type: allgather}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_shared_expert_intermediate_size: 512, moe_shared_expert_overlap: true, moe_token_dispatcher_type: alltoall}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE114", "moe/shared-experts"

    def check(self, run: Run) -> Iterator[Finding]:
        if touched(run, SHARED):
            width = stated_number(run, SHARED)
            if width is not None and width <= 0:
                yield self.finding(
                    run,
                    REJECTED,
                    SHARED,
                    f"moe_shared_expert_intermediate_size is {width}; a model without shared experts says null",
                    why="It is the width of all shared experts together.",
                    fix=Fix("moe_shared_expert_intermediate_size: null", set_to(run, (SHARED, None))),
                )
        if not touched(run, SHARED, SHARED_OVERLAP, DISPATCHER) or not stated(run, SHARED_OVERLAP, False):
            return
        fine, dispatcher = shared_overlap_dispatchers(run.release), stated(run, DISPATCHER)
        if dispatcher not in fine and stated(run, SHARED) is not None:
            yield self.finding(
                run,
                REJECTED,
                SHARED_OVERLAP if run.wrote(SHARED_OVERLAP) else DISPATCHER,
                f"moe_shared_expert_overlap needs dispatcher {words(fine, 'or')}, found {dispatcher}",
                why="The shared experts compute while tokens are exchanged, which other dispatchers do not support.",
                related=(SHARED_OVERLAP, DISPATCHER),
                fix=Fix("moe_shared_expert_overlap: false", set_to(run, (SHARED_OVERLAP, False)), safe=True),
            )


class Dispatcher(RejectingRule):
    """DeepEP is a backend of the flex dispatcher, the only one at a time, and does not pad to the expert capacity.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_enable_deepep: true, moe_token_dispatcher_type: alltoall}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model:
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: deepep
      moe_expert_capacity_factor: 1.0
      moe_pad_expert_input_to_capacity: true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_enable_deepep: false, moe_token_dispatcher_type: alltoall}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE115", "moe/dispatcher"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, DEEPEP, DISPATCHER, BACKEND, PAD_TO_CAPACITY):
            return
        deepep, dispatcher, backend = stated(run, DEEPEP, False), stated(run, DISPATCHER), stated(run, BACKEND)
        if deepep:
            off = Fix("moe_enable_deepep: false", set_to(run, (DEEPEP, False)))
            if dispatcher != "flex":
                message = f"moe_enable_deepep needs moe_token_dispatcher_type flex, found {dispatcher}"
                yield self._refuse(run, message, (DISPATCHER,), off)
            if backend == "hybridep":
                yield self._refuse(run, "moe_enable_deepep excludes moe_flex_dispatcher_backend hybridep", (BACKEND,), off)
        if dispatcher == "flex" and (deepep or backend == "deepep") and stated(run, PAD_TO_CAPACITY, False):
            yield self.finding(
                run,
                REJECTED,
                PAD_TO_CAPACITY if run.wrote(PAD_TO_CAPACITY) else DISPATCHER,
                "DeepEP does not support moe_pad_expert_input_to_capacity",
                why="Its buffers hold the tokens of each expert without padding.",
                related=(DISPATCHER, BACKEND),
                fix=Fix("moe_pad_expert_input_to_capacity: false", set_to(run, (PAD_TO_CAPACITY, False))),
            )

    def _refuse(self, run: Run, message: str, related: tuple[str, ...], fix: Fix) -> Finding:
        why = "moe_enable_deepep is the former way to choose the backend deepep of the flex dispatcher."
        return self.finding(run, REJECTED, DEEPEP, message, why=why, related=related, fix=fix)


class NumSms(RejectingRule):
    """The two former SM counts of the flex dispatcher must not differ unless the new one is set.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_deepep_num_sms: 20, moe_hybridep_num_sms: 16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_flex_dispatcher_num_sms: 20}
    ```

    ## Upstream
    - 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE116", "moe/num-sms"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, NUM_SMS, *OLD_NUM_SMS):
            return
        old = [stated(run, key) for key in OLD_NUM_SMS]
        if stated(run, NUM_SMS) is not None:
            return
        for key, value in zip(OLD_NUM_SMS, old, strict=True):
            if isinstance(value, (list, Object)):  # the two are put into a set
                raise WrongKind(run.setting(key))
        if None in old or old[0] == old[1]:
            return
        yield self.finding(
            run,
            REJECTED,
            next((key for key in OLD_NUM_SMS if run.wrote(key)), OLD_NUM_SMS[0]),
            f"moe_deepep_num_sms {old[0]} and moe_hybridep_num_sms {old[1]} differ",
            why="Both are former names of moe_flex_dispatcher_num_sms, which is not set.",
            related=OLD_NUM_SMS,
            fix=Fix("moe_flex_dispatcher_num_sms with the number of the backend in use"),
        )


class RankCapacity(RejectingRule):
    """A capacity of a whole rank needs a backend that knows it, and fused Transformer Engine operations with HybridEP.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_expert_rank_capacity_factor: 1.0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_expert_rank_capacity_factor: null}
    ```

    ## Upstream
    - 0.5, 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE117", "moe/rank-capacity"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, RANK_CAPACITY, BACKEND, DEEPEP, OP_FUSER) or stated(run, RANK_CAPACITY) is None:
            return
        backend = "deepep" if stated(run, DEEPEP, False) else stated(run, BACKEND)
        fine = rank_capacity_backends(run.release)
        if backend not in fine:
            message = f"moe_expert_rank_capacity_factor needs moe_flex_dispatcher_backend {words(fine, 'or')}, found {backend}"
            yield self._refuse(run, message, BACKEND)
        fused = run.release < R06 or backend == "hybridep"
        if fused and not stated(run, OP_FUSER, False):
            yield self._refuse(run, "moe_expert_rank_capacity_factor needs use_transformer_engine_op_fuser: true", OP_FUSER)

    def _refuse(self, run: Run, message: str, related: str) -> Finding:
        fix = Fix("moe_expert_rank_capacity_factor: null", set_to(run, (RANK_CAPACITY, None)))
        why = "The buffer of a rank is bounded by the backend and the fused operations that read it."
        return self.finding(run, REJECTED, RANK_CAPACITY, message, why=why, related=(related,), fix=fix)


RULES: tuple[Rule, ...] = (ExpertCount(), SharedExperts(), Dispatcher(), NumSms(), RankCapacity())
