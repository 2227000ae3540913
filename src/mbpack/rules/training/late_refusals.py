"""What 0.7 refuses right after the sizes of the evaluation: a frozen base for MTP, shortcut experts, layer-wise optimizers."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to

FREEZE, MTP = "model.freeze_base_model_for_mtp", "model.mtp_num_layers"
SHORTCUT, GROUPED = "model.moe_shortcut_connection", "model.moe_single_grouped_weight"
SHARDED = ("dist.use_torch_fsdp2", "dist.use_megatron_fsdp", "ddp.use_megatron_fsdp")
LAYER_WISE, OPTIMIZER = "optimizer.use_layer_wise_distributed_optimizer", "optimizer.optimizer"


class FrozenBase(RejectingRule):
    """freeze_base_model_for_mtp trains the MTP layers alone, so there must be some.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {freeze_base_model_for_mtp: true, mtp_num_layers: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {freeze_base_model_for_mtp: true, mtp_num_layers: 1}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "MTP102", "mtp/frozen-base"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.flag(FREEZE) and not run.flag(MTP):
            yield self.finding(
                run,
                REJECTED,
                FREEZE,
                "freeze_base_model_for_mtp needs mtp_num_layers",
                why="With the base model frozen and no MTP layers nothing is left to train.",
                related=(MTP,),
                fix=Fix("freeze_base_model_for_mtp: false", set_to(run, (FREEZE, False))),
            )


class ShortcutFsdp(RejectingRule):
    """Shortcut connections around experts work with neither Megatron-FSDP nor PyTorch's FSDP2.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {moe_shortcut_connection: true}
    dist: {use_torch_fsdp2: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {moe_shortcut_connection: true}
    dist: {use_torch_fsdp2: false, use_megatron_fsdp: false}
    ddp: {use_megatron_fsdp: false}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "MOE127", "moe/shortcut-fsdp"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(SHORTCUT):
            return
        held = [key for key in SHARDED if run.flag(key)]
        if held:
            yield self.finding(
                run,
                REJECTED,
                SHORTCUT,
                f"moe_shortcut_connection does not work with {held[0].partition('.')[2]}",
                related=held,
                fix=Fix("moe_shortcut_connection: false", set_to(run, (SHORTCUT, False))),
            )


class LayerWiseGrouped(RejectingRule):
    """The layer-wise distributed optimizer cannot take the weights of all experts as one tensor.

    Names of optimizers that begin with dist_ bring it too.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {moe_single_grouped_weight: true}
    optimizer: {optimizer: dist_muon}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {moe_single_grouped_weight: false}
    optimizer: {optimizer: dist_muon}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "OPT104", "new/layerwise-single-grouped"
    topic = "opt"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(GROUPED):
            return
        name = run.value(OPTIMIZER)
        named = isinstance(name, str) and name.startswith("dist_")
        if run.flag(LAYER_WISE) or named:
            key = LAYER_WISE if run.flag(LAYER_WISE) else OPTIMIZER
            yield self.finding(
                run,
                REJECTED,
                GROUPED,
                f"moe_single_grouped_weight does not go with {f'optimizer {name}' if named else LAYER_WISE.partition('.')[2]}",
                why="That optimizer splits its work by whole weights, and all experts are one here.",
                related=(key,),
                fix=Fix("moe_single_grouped_weight: false", set_to(run, (GROUPED, False))),
            )


RULES: tuple[Rule, ...] = (FrozenBase(), ShortcutFsdp(), LayerWiseGrouped())
