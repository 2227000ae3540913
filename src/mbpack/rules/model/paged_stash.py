"""Memory of expert layers: the paged stash of their activations, and weights of all experts in one tensor."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.precision import SECTION, precision_field
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.offloading import expert_steps
from mbpack.facts.releases import NIGHTLY, R05, R06, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.stated import stated

STASH, CAPACITY, CPU = "model.moe_paged_stash", "model.moe_expert_rank_capacity_factor", "model.cpu_offloading"
MODULES, FUSER = "model.offload_modules", "model.use_transformer_engine_op_fuser"
WEIGHT, BIAS = "model.moe_single_grouped_weight", "model.moe_single_grouped_bias"
GROUPED, LINEAR_BIAS, TENSOR = "model.moe_grouped_gemm", "model.add_bias_linear", "model.moe_use_grouped_tensor"


class PagedStash(RejectingRule):
    """The paged stash needs a capacity of a rank, and nothing else may offload what it stashes.

    It reads `offload_modules` also where offloading is off; many recipes hold null there, which is no list.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_paged_stash: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model:
      moe_paged_stash: true
      moe_expert_rank_capacity_factor: 1.0
      offload_modules: []
      moe_token_dispatcher_type: flex
      moe_flex_dispatcher_backend: hybridep
      use_transformer_engine_op_fuser: true
    ```

    ## Upstream
    - 0.5 to 0.7: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE121", "moe/paged-stash"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(STASH):
            return
        if stated(run, CPU, False):
            fix = Fix("cpu_offloading: false", set_to(run, (CPU, False)))
            yield self._refuse(run, STASH, "moe_paged_stash excludes cpu_offloading", fix, "Both would move the same tensors.")
        if stated(run, CAPACITY) is None:
            message = "moe_paged_stash needs moe_expert_rank_capacity_factor"
            why = "Only a fixed capacity of a rank leaves the unused space that the stash saves."
            yield self._refuse(run, STASH, message, Fix("moe_paged_stash: false", set_to(run, (STASH, False))), why)
        names = stated(run, MODULES)
        if isinstance(names, Object):
            return
        unfit = isinstance(names, list) and any(isinstance(name, (list, Object)) for name in names)
        if unfit or not isinstance(names, (list, str)):
            message = f"moe_paged_stash reads a list of names in offload_modules, found {in_yaml(names)}"
            yield self._refuse(run, MODULES, message, Fix("offload_modules: []", set_to(run, (MODULES, [])), safe=True))
            return
        covered = [name for name in expert_steps(run.release) if isinstance(names, list) and name in names]
        if covered:
            rest = [name for name in names if name not in covered]
            fix = Fix(f"offload_modules: {words(rest) or '[]'}", set_to(run, (MODULES, rest)), safe=True)
            yield self._refuse(
                run, MODULES, f"moe_paged_stash excludes {words(covered)} in offload_modules", fix, "It stashes them."
            )

    def _refuse(self, run: Run, key: str, message: str, fix: Fix, why: str = "") -> Finding:
        place = key if run.wrote(key) else STASH
        return self.finding(run, REJECTED, place, message, why=why, related=(STASH, CPU, CAPACITY, MODULES), fix=fix)


class SingleGrouped(RejectingRule):
    """Weights or biases of all experts in one tensor need the grouped product and a fitting precision.

    Weights go with MXFP8 only on 0.5; from 0.6 on with BF16, FP16, MXFP8 and NVFP4, and on 0.6 they need the operation fuser.
    From 0.7 on both need `moe_use_grouped_tensor`, which the fuser brings. Biases need layers that have one.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_single_grouped_weight: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_single_grouped_bias: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_single_grouped_weight: true, use_transformer_engine_op_fuser: true}
    ```

    ## Upstream
    - 0.5, 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE122", "moe/single-grouped"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        weight, bias = run.flag(WEIGHT), run.flag(BIAS)
        if not weight and not bias:
            return
        asked = WEIGHT if weight else BIAS
        if not stated(run, GROUPED, False):
            yield self._refuse(run, asked, "needs moe_grouped_gemm: true", GROUPED, "Experts computed apart hold tensors apart.")
        if weight:
            wrong = self._unfit(run)
            if wrong:
                why = "The optimizer cannot split such weights of several experts."
                yield self._refuse(run, WEIGHT, f"does not go with {wrong}", SECTION, why)
            if run.release is R06 and not stated(run, FUSER, False):
                why = "Without the fuser the layer takes the tensor apart again."
                yield self._refuse(run, WEIGHT, "needs use_transformer_engine_op_fuser: true", FUSER, why)
        if run.release >= R07 and not stated(run, TENSOR, False) and not stated(run, FUSER, False):
            yield self._refuse(
                run, asked, "needs moe_use_grouped_tensor: true", TENSOR, "One tensor needs the path that takes one."
            )
        if bias and not stated(run, LINEAR_BIAS, False):
            yield self._refuse(run, BIAS, "needs add_bias_linear: true", LINEAR_BIAS, "The layers of this model have no bias.")

    @staticmethod
    def _unfit(run: Run) -> str:
        """The number format that such weights do not go with; empty where they do."""
        fp8, fp4 = precision_field(run, "fp8"), precision_field(run, "fp4")
        recipe = precision_field(run, "fp8_recipe") if fp8 else None
        if fp8 and recipe != "mxfp8":
            return f"FP8 in {recipe} scaling"
        if run.release < R06:
            return "" if fp8 else "anything but FP8 in mxfp8 scaling"
        recipe = precision_field(run, "fp4_recipe") if fp4 else None
        return f"FP4 in {recipe} scaling" if fp4 and recipe != "nvfp4" else ""

    def _refuse(self, run: Run, key: str, what: str, other: str, why: str) -> Finding:
        name = key.rpartition(".")[2]
        fix = (
            Fix(f"{other.rpartition('.')[2]}: true", set_to(run, (other, True)))
            if other in (GROUPED, FUSER, TENSOR)
            else Fix(f"{name}: false", set_to(run, (key, False)))
        )
        return self.finding(run, REJECTED, key, f"{name} {what}", why=why, related=(other,), fix=fix)


RULES: tuple[Rule, ...] = (PagedStash(), SingleGrouped())
