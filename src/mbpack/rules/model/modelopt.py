"""Models that ModelOpt quantized."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.releases import R03, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to
from mbpack.rules.lookup import uses_megatron_fsdp

RESTORE, FUSION = "model.restore_modelopt_state", "model.gradient_accumulation_fusion"
TEMPORARY = "checkpoint.non_persistent_ckpt_type"


class Restore(RejectingRule):
    """A model that ModelOpt quantized accumulates gradients unfused and is restored from persistent checkpoints.

    `restore_modelopt_state` excludes `gradient_accumulation_fusion` and, from 0.6 on, `non_persistent_ckpt_type`. The fusion is
    on by default where the machine has its kernels, as machines that train do.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {restore_modelopt_state: true, gradient_accumulation_fusion: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {restore_modelopt_state: true, gradient_accumulation_fusion: false}
    checkpoint: {non_persistent_ckpt_type: global}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {restore_modelopt_state: true, gradient_accumulation_fusion: false}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    - 0.6, 0.7: `training/post_training/checkpointing.py`, `_validate_modelopt_checkpointing`
    """

    code, slug = "QNT101", "quant/modelopt"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(RESTORE):
            return
        if run.flag(FUSION) and not self._fusion_goes(run):
            yield self.finding(
                run,
                REJECTED,
                FUSION,
                "restore_modelopt_state needs gradient_accumulation_fusion: false",
                why="The fused kernels do not know quantized layers.",
                related=(RESTORE,),
                fix=Fix("gradient_accumulation_fusion: false", set_to(run, (FUSION, False)), safe=True),
            )
        if run.release >= R06 and run.is_set(TEMPORARY):
            yield self.finding(
                run,
                REJECTED,
                TEMPORARY,
                f"restore_modelopt_state does not work with non_persistent_ckpt_type {run.value(TEMPORARY)}",
                why="The quantizer state is read from persistent checkpoints.",
                related=(RESTORE,),
                fix=Fix("non_persistent_ckpt_type: null", set_to(run, (TEMPORARY, None))),
            )

    @staticmethod
    def _fusion_goes(run: Run) -> bool:
        """Whether the start-up has switched the fusion off before it looks: 0.3 does so for Megatron-FSDP."""
        return run.release <= R03 and uses_megatron_fsdp(run)


RULES: tuple[Rule, ...] = (Restore(),)
