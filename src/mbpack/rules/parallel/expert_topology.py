"""Expert parallelism against the model, its dispatcher and the rest of the topology."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.precision import precision_field
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.keys import EP, ETP, PP, TP, VPP
from mbpack.facts.releases import R04, R05, R06
from mbpack.rules.base import (
    REJECTED,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
    words,
)
from mbpack.rules.memory.recompute import recompute_modules
from mbpack.rules.stated import touched

EXPERTS = "model.num_moe_experts"
OVERLAP = "overlap_moe_expert_parallel_comm"


class EpNeedsMoe(RejectingRule):
    """Expert parallelism needs a model with experts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {expert_model_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {expert_model_parallel_size: 1}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "TOP105", "topo/ep-needs-moe"

    def check(self, run: Run) -> Iterator[Finding]:
        size = run.given_size(EP)
        if size > 1 and not run.moe:
            yield self.finding(
                run,
                REJECTED,
                EP,
                f"expert_model_parallel_size {size} on a dense model",
                related=(EXPERTS,),
                fix=Fix("expert_model_parallel_size: 1", set_to(run, (EP, 1)), safe=True),
            )


class EpOverlapConditions(RejectingRule):
    """Overlapping expert communication has conditions on topology, dispatcher, recompute and MTP.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {overlap_moe_expert_parallel_comm: true, expert_model_parallel_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {overlap_moe_expert_parallel_comm: false, expert_model_parallel_size: 1}
    ```

    ## Upstream
    - all releases: `training/comm_overlap.py`, `CommOverlapConfig._get_model_comm_overlap_cfgs`; Megatron-Core
      `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "TOP108", "topo/ep-overlap-conditions"

    def stops_at(self, run: Run) -> str:
        by_section = run.maybe("comm_overlap") is not None and isinstance(run.maybe(VPP), str)
        return "comm-overlap" if by_section else self.slug

    def check(self, run: Run) -> Iterator[Finding]:
        own, model = f"comm_overlap.{OVERLAP}", f"model.{OVERLAP}"
        section = run.value("comm_overlap")
        if section is not None:
            if run.pp > 1 and isinstance(run.maybe(VPP), (str, list, Object)):
                run.number(VPP)  # the section compares it, whatever it overlaps
            asked, key = run.flag(own), own
            station = "comm-overlap" if run.is_true(own) else ""  # a text is written over the model's switch unchecked
        else:
            asked, key, station = run.flag(model), model, ""
        if not asked:
            if section is not None and run.value("comm_overlap.delay_wgrad_compute") is True and not run.flag(model):
                message = f"delay_wgrad_compute needs {OVERLAP}"
                yield self._refuse(run, "comm_overlap.delay_wgrad_compute", message, (), "comm-overlap")
            return
        for broken, message, related in self._conditions(run, bool(station)):
            if broken:
                yield self._refuse(run, key, message, related, station)
        graphs = run.graphs
        covered = {"moe", "mlp"} & set(graphs.named)
        if (graphs.enabled and not graphs.scoped_te and run.release < R05) or (graphs.scoped_te and covered):
            what = f"a graph over {words(sorted(covered))}" if covered else "graphs other than Transformer Engine's"
            yield self._refuse(run, key, f"{OVERLAP} excludes {what}", (graphs.key,), "")

    def _refuse(self, run: Run, key: str, message: str, related: tuple[str, ...], station: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key,
            message,
            related=related,
            fix=Fix(f"{key.rpartition('.')[2]}: false", set_to(run, (key, False)), safe=True),
            station=station,
        )

    @staticmethod
    def _conditions(run: Run, by_section: bool) -> Iterator[tuple[bool, str, tuple[str, ...]]]:
        dispatcher = "model.moe_token_dispatcher_type"
        yield run.ep <= 1, f"{OVERLAP} needs expert parallel above 1", (EP,)
        if by_section:
            experts = run.number(EXPERTS)
            yield experts is None or experts <= 1, f"{OVERLAP} needs a model with experts", (EXPERTS,)
        kind = run.value(dispatcher)
        yield kind not in ("alltoall", "flex"), f"{OVERLAP} needs dispatcher alltoall or flex, found {kind}", (dispatcher,)
        if touched(run, "mixed_precision", "model.bf16", "model.fp16"):  # every recipe computes in BF16 or FP16
            full = not precision_field(run, "bf16") and not precision_field(run, "fp16")
            yield full, f"{OVERLAP} needs BF16 or FP16", ("mixed_precision",)
        yield (
            run.pp > 1 and run.vpp is None,
            f"{OVERLAP} with pipeline parallel {run.pp} needs a virtual pipeline size",
            (VPP, PP),
        )
        for name in ("recompute_granularity", "recompute_method", "recompute_num_layers"):
            value = run.value(f"model.{name}")
            broken = value == "full" if name == "recompute_granularity" else value is not None
            yield broken, f"{OVERLAP} does not work with {name}: {value}", (f"model.{name}",)
        modules = recompute_modules(run) or ()
        yield (
            run.release >= R04 and "moe" in modules,
            f"{OVERLAP} does not work with recompute of moe",
            ("model.recompute_modules",),
        )
        yield run.flag("model.moe_shared_expert_overlap"), f"{OVERLAP} excludes moe_shared_expert_overlap", ()
        mtp = run.number("model.mtp_num_layers")
        limit = mtp is not None and (mtp > 1 if run.release >= R06 else mtp != 1)
        yield limit, f"{OVERLAP} allows at most one MTP layer, found {mtp}", ("model.mtp_num_layers",)
        alone = run.release < R05 and mtp == 1 and run.pp <= 1
        yield alone, f"{OVERLAP} with an MTP layer needs pipeline parallelism up to 0.4", (PP, "model.mtp_num_layers")


class ExpertBiasNeedsEtpOne(RejectingRule):
    """Linear biases in experts need expert tensor parallel 1.

    Up to 0.5 an unset expert tensor parallel size means TP, so GPT-OSS with tensor parallelism runs into this.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=gpt_oss_20b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, sequence_parallel: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=gpt_oss_20b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, sequence_parallel: true, expert_tensor_parallel_size: 1}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "TOP109", "topo/expert-bias-etp"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.moe or not run.flag("model.add_bias_linear"):
            return
        etp = run.etp
        if etp != 1:
            yield self.finding(
                run,
                REJECTED,
                ETP if run.wrote(ETP) or not run.wrote(TP) else TP,
                f"experts with linear biases need expert tensor parallel 1, found {etp}",
                related=(ETP, TP, "model.add_bias_linear"),
                fix=Fix("expert_tensor_parallel_size: 1", set_to(run, (ETP, 1))),
            )


RULES: tuple[Rule, ...] = (
    EpNeedsMoe(),
    EpOverlapConditions(),
    ExpertBiasNeedsEtpOne(),
)
