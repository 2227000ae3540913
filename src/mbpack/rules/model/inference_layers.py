"""Layers that are optimised for inference, which a training configuration can name as well."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.inference import OPTIMIZED, grouped_backends
from mbpack.facts.releases import NIGHTLY, R04, R05
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.stated import stated

ENGINE, EXPERTS, ETP = "model.transformer_impl", "model.num_moe_experts", "model.expert_tensor_parallel_size"
CAPACITY, PADDING = "model.moe_expert_capacity_factor", "model.moe_router_padding_for_quantization"
ROUTER, GATED, BACKEND = "model.moe_router_dtype", "model.gated_linear_unit", "model.inference_grouped_gemm_backend"
NORM = "model.normalization"
#: What those layers cannot do.
LACKING = tuple(f"model.{name}" for name in ("layernorm_zero_centered_gamma", "add_bias_linear", "add_qkv_bias", "use_kitchen"))
FUSED, NVLS = "model.inference_fuse_tp_communication", "model.inference_disable_triton_nvls_kernels"


def _leave(run: Run) -> Fix:
    return Fix("transformer_impl: transformer_engine", set_to(run, (ENGINE, "transformer_engine")))


class InferenceExperts(RejectingRule):
    """Expert layers optimised for inference are dropless, route in FP32, and have no gated units.

    0.4 takes gated units where no local CUDA graphs are asked for. The backend of their grouped product has other names there.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {transformer_impl: inference_optimized}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.4 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {transformer_impl: inference_optimized, moe_router_dtype: fp32}
    ```

    ## Upstream
    - 0.4 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "INF101", "inference/experts"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.value(ENGINE) != OPTIMIZED or not run.moe:
            return
        if run.etp > 1:
            fix = Fix("expert_tensor_parallel_size: 1", set_to(run, (ETP, 1)))
            yield self._refuse(run, ETP, f"have no expert tensor parallelism, found {run.etp}", fix)
        if stated(run, CAPACITY) is not None:
            fix = Fix("moe_expert_capacity_factor: null", set_to(run, (CAPACITY, None)))
            yield self._refuse(run, CAPACITY, "take no moe_expert_capacity_factor: they drop no tokens", fix)
        if stated(run, PADDING, False):
            fix = Fix("moe_router_padding_for_quantization: false", set_to(run, (PADDING, False)))
            yield self._refuse(run, PADDING, "do not pad the routing map", fix)
        dtype = stated(run, ROUTER)
        if dtype != "fp32":
            fix = Fix("moe_router_dtype: fp32", set_to(run, (ROUTER, "fp32")))
            yield self._refuse(run, ROUTER, f"need moe_router_dtype fp32, found {in_yaml(dtype)}", fix)
        local = run.value(IMPL) == "local"
        if (local or run.release >= R05) and stated(run, GATED, False):
            where = " in local graphs" if run.release < R05 else ""
            yield self._refuse(run, GATED, f"have no gated linear units{where}", _leave(run))
        backend, known = stated(run, BACKEND), grouped_backends(run.release)
        fix = Fix("inference_grouped_gemm_backend: torch", set_to(run, (BACKEND, "torch")))
        if not isinstance(backend, Object) and backend not in known:
            found = in_yaml(backend)
            yield self._refuse(run, BACKEND, f"need inference_grouped_gemm_backend {words(known, 'or')}, found {found}", fix)
        elif backend == "te" and local:
            yield self._refuse(run, BACKEND, "have no te backend in local graphs", fix)

    def _refuse(self, run: Run, key: str, what: str, fix: Fix) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key if run.wrote(key) else ENGINE,
            f"expert layers optimised for inference {what}",
            related=(ENGINE, EXPERTS),
            fix=fix,
        )


class InferenceLayers(RejectingRule):
    """Layers optimised for inference have plain RMS norms and no biases.

    The start-up asserts this without a word.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {transformer_impl: inference_optimized, add_qkv_bias: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {transformer_impl: inference_optimized}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "INF102", "inference/layers"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.value(ENGINE) != OPTIMIZED:
            return
        norm = stated(run, NORM)
        if norm != "RMSNorm":
            yield self._refuse(run, NORM, f"need normalization RMSNorm, found {in_yaml(norm)}")
        for key in LACKING:
            if stated(run, key, False):
                yield self._refuse(run, key, f"exclude {key.rpartition('.')[2]}")

    def _refuse(self, run: Run, key: str, what: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key if run.wrote(key) else ENGINE,
            f"layers optimised for inference {what}",
            why="The start-up stops at an assertion without a message.",
            related=(ENGINE, key),
            fix=_leave(run),
        )


class InferenceSwitches(RejectingRule):
    """Switches of the layers optimised for inference need those layers.

    From 0.4 on fused tensor parallel communication also needs a model without experts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {inference_fuse_tp_communication: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {inference_fuse_tp_communication: true, transformer_impl: inference_optimized}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "INF103", "inference/switches"

    def check(self, run: Run) -> Iterator[Finding]:
        asked = [key for key in (FUSED, NVLS) if run.flag(key)]
        if not asked:
            return
        if stated(run, ENGINE) != OPTIMIZED:
            for key in asked:
                yield self._refuse(run, key, f"needs transformer_impl {OPTIMIZED}", ENGINE)
        if FUSED in asked and run.release >= R04 and run.moe:
            yield self._refuse(run, FUSED, "needs a model without experts", EXPERTS)

    def _refuse(self, run: Run, key: str, what: str, other: str) -> Finding:
        name = key.rpartition(".")[2]
        fix = Fix(f"{name}: false", set_to(run, (key, False)), safe=True)
        return self.finding(run, REJECTED, key, f"{name} {what}", related=(other,), fix=fix)


RULES: tuple[Rule, ...] = (InferenceExperts(), InferenceLayers(), InferenceSwitches())
