"""Fine-grained offloading of activations: its modules, its sizes, CUDA graphs beside it, and what it needs around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.graphs import IMPL
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.offloading import ENGINE, FUSED, FUSED_STEPS, VARIABLE, expert_steps, offload_module_names
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.environment import variable
from mbpack.rules.lookup import overlap_key
from mbpack.rules.memory.recompute import selective_modules
from mbpack.rules.stated import stated, stated_number

SWITCH, MODULES, CPU = "model.fine_grained_activation_offloading", "model.offload_modules", "model.cpu_offloading"
RECOMPUTED, FUSER = "model.recompute_modules", "model.use_transformer_engine_op_fuser"
SMALLEST, FRACTION, DELTA = (
    f"model.{name}"
    for name in ("min_offloaded_tensor_size", "activation_offload_fraction", "delta_offload_bytes_across_pp_ranks")
)
WARM_UP, IN_FLIGHT = "model.cuda_graph_warmup_steps", "model.fine_grained_offloading_max_inflight_offloads"
DISPATCHER, BACKEND, DEEPEP = (
    f"model.{name}" for name in ("moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "moe_enable_deepep")
)
ENGINE_IMPL = "model.transformer_impl"


class OffloadModules(RejectingRule):
    """Activation offloading names modules that can be offloaded, alone and together with the other settings.

    Without names there is nothing to offload. `attn_proj` needs `core_attn`, `fused_group_mlp` (from 0.6 on) the fused expert
    product and none of its steps. Layer-wise CPU offloading excludes it all; recompute of whole expert layers (from 0.6 on)
    excludes the steps of an expert, and NCCL EP with overlap excludes `expert_fc1`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fine_grained_activation_offloading: true}
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fine_grained_activation_offloading: true, offload_modules: [mlp]}
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fine_grained_activation_offloading: true, offload_modules: [core_attn, attn_proj]}
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "OFL101", "offload/modules"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(SWITCH):
            return
        if stated(run, CPU, False):
            fix = Fix("cpu_offloading: false", set_to(run, (CPU, False)))
            yield self._refuse(run, "it excludes cpu_offloading", "Two mechanisms would move the same tensors.", fix, (CPU,))
        held = stated(run, MODULES)
        if isinstance(held, Object):
            return  # a mapping: upstream takes its keys, or what an object of it yields
        known = offload_module_names(run.release)
        names = [name for name in held if isinstance(name, str) and name in known] if isinstance(held, list) else []
        if not isinstance(held, list) or len(names) < len(held) or not held:
            yield self._unknown_names(run, held, names, known)
            return
        if "attn_proj" in names and "core_attn" not in names:
            message, fixed = "attn_proj needs core_attn beside it", [*names, "core_attn"]
            why = "The input of the projection is the output of the attention, whose backward pass needs it on the GPU."
            yield self._refuse(run, message, why, self._only(run, fixed))
        if run.release >= R06:
            yield from self._with_experts(run, names)

    def _unknown_names(self, run: Run, held: Any, names: list[str], known: frozenset[str]) -> Finding:
        if isinstance(held, list) and held:
            wrong = next(name for name in held if name not in names)
            message = f"offload_modules has no {in_yaml(wrong)}, it takes {words(sorted(known), 'or')}"
        else:
            found = "an empty list" if held == [] else in_yaml(held)
            message = f"offload_modules must be a list of names, found {found}"
        off = Fix("fine_grained_activation_offloading: false", set_to(run, (SWITCH, False)))
        return self._refuse(run, message, "", self._only(run, names)._replace(safe=False) if names else off)

    def _with_experts(self, run: Run, names: list[str]) -> Iterator[Finding]:
        inside = [name for name in names if name in expert_steps(run.release)]
        if not inside:
            return
        if "moe" in selective_modules(run):
            rest = [name for name in names if name not in inside]
            yield self._refuse(
                run,
                f"{words(inside)} cannot be offloaded while the whole expert layer is recomputed",
                "The layer runs once more in the backward pass, so nothing of it is kept to offload.",
                self._only(run, rest) if rest else Fix("fine_grained_activation_offloading: false", set_to(run, (SWITCH, False))),
                (RECOMPUTED,),
            )
        if FUSED in names:
            yield from self._fused(run, names)
        if "expert_fc1" in names and self._overlaps_nccl(run):
            rest = [name for name in names if name != "expert_fc1"]
            yield self._refuse(
                run,
                "expert_fc1 cannot be offloaded with NCCL EP and overlapped expert communication",
                "The overlap frees the input of that product before the offloading could save it.",
                self._only(run, rest) if rest else Fix("fine_grained_activation_offloading: false", set_to(run, (SWITCH, False))),
                (BACKEND,),
                "overlap",
            )

    def _fused(self, run: Run, names: list[str]) -> Iterator[Finding]:
        if not stated(run, FUSER, False):
            yield self._refuse(
                run,
                f"{FUSED} needs use_transformer_engine_op_fuser: true",
                "Only the operation fuser makes the experts one product.",
                Fix("use_transformer_engine_op_fuser: true", set_to(run, (FUSER, True))),
                (FUSER,),
                "fused",
            )
        steps = [name for name in names if name in FUSED_STEPS]
        if steps:
            kept = [name for name in names if name not in steps]
            why = "The fused product contains them."
            yield self._refuse(run, f"{FUSED} excludes {words(steps)}", why, self._only(run, kept), station="fused")

    @staticmethod
    def _overlaps_nccl(run: Run) -> bool:
        if overlap_key(run) is None or stated(run, DISPATCHER) != "flex":
            return False
        return stated(run, BACKEND) == "ncclep" and not stated(run, DEEPEP, False)

    @staticmethod
    def _only(run: Run, names: list[str]) -> Fix:
        return Fix(f"offload_modules: [{', '.join(names)}]", set_to(run, (MODULES, names)), safe=True)

    def _refuse(self, run: Run, what: str, why: str, fix: Fix, related: tuple[str, ...] = (), station: str = "") -> Finding:
        return self.finding(
            run,
            REJECTED,
            MODULES if run.wrote(MODULES) else SWITCH,
            f"fine_grained_activation_offloading: {what}",
            why=why,
            related=(SWITCH, *related),
            fix=fix,
            station=f"{self.slug}@{station}" if station else "",
        )


class OffloadSizes(RejectingRule):
    """The sizes of activation offloading are not negative, and its fraction lies between 0 and 1.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fine_grained_activation_offloading: true, offload_modules: [core_attn], activation_offload_fraction: 50}
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fine_grained_activation_offloading: true, offload_modules: [core_attn], activation_offload_fraction: 0.5}
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    ```

    ## Upstream
    - 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "OFL102", "offload/sizes"
    releases = (R06, NIGHTLY)

    #: Key, largest value, a good value, what it counts.
    LIMITS = (
        (SMALLEST, None, 1048576, "elements"),
        (FRACTION, 1, 1.0, "share of the activations"),
        (DELTA, None, 0, "bytes"),
    )

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(SWITCH):
            return
        for key, largest, usual, unit in self.LIMITS:
            value, name = stated_number(run, key), key.rpartition(".")[2]
            if value is None or value < 0 or (largest is not None and value > largest):
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"{name} must be {'0 or more' if largest is None else f'between 0 and {largest}'} ({unit}),"
                    f" found {in_yaml(value)}",
                    related=(SWITCH,),
                    fix=Fix(f"{name}: {usual}, the default", set_to(run, (key, usual))),
                )


class OffloadGraphs(RejectingRule):
    """Activation offloading under CUDA graphs has conditions on what they capture and how they warm up.

    The local implementation and a capture of whole expert layers exclude it. What there is to offload is learned in the
    warm-up, so there must be a step of it; full-iteration graphs need a bound for the copies under way.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model:
      fine_grained_activation_offloading: true
      offload_modules: [core_attn]
      cuda_graph_impl: full_iteration
      use_te_rng_tracker: true
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    rerun_state_machine: {check_for_nan_in_loss: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model:
      fine_grained_activation_offloading: true
      offload_modules: [core_attn]
      fine_grained_offloading_max_inflight_offloads: 2
      cuda_graph_impl: full_iteration
      use_te_rng_tracker: true
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    rerun_state_machine: {check_for_nan_in_loss: false}
    ```

    ## Upstream
    - 0.5, 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "OFL103", "offload/graphs"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(SWITCH) or not run.graphs.enabled:
            return
        graphs = run.graphs
        if graphs.core_impl == "local":
            message = "CUDA graphs of the local implementation exclude activation offloading"
            yield self._refuse(run, IMPL, message, Fix("cuda_graph_impl: none", set_to(run, (IMPL, "none"))))
        if "moe" in graphs.modules:
            message = "a CUDA graph over whole expert layers excludes activation offloading"
            yield self._refuse(run, graphs.key, message, Fix("cuda_graph_impl: none", set_to(run, (IMPL, "none"))))
        steps = stated_number(run, WARM_UP)
        if steps is None or steps <= 0:
            found = in_yaml(steps)
            message = f"activation offloading needs cuda_graph_warmup_steps above 0, found {found}"
            yield self._refuse(run, WARM_UP, message, Fix("cuda_graph_warmup_steps: 3", set_to(run, (WARM_UP, 3)), safe=True))
        if graphs.core_impl == "full_iteration":
            bound = stated_number(run, IN_FLIGHT)
            if bound is None or bound < 0:
                name, found = IN_FLIGHT.rpartition(".")[2], in_yaml(bound)
                message = f"full-iteration CUDA graphs need {name} of 0 or more, found {found}"
                yield self._refuse(run, IN_FLIGHT, message, Fix(f"{name}: 2, or as many copies as memory allows"))

    def _refuse(self, run: Run, key: str, message: str, fix: Fix) -> Finding:
        return self.finding(
            run, REJECTED, key if run.wrote(key) else SWITCH, message, related=(SWITCH, IMPL, run.graphs.key), fix=fix
        )


class OffloadRuntime(RejectingRule):
    """Activation offloading needs the Transformer Engine layers and an environment variable.

    From Transformer Engine 2.10 on, which every release runs with, the start-up asks for `NVTE_CPU_OFFLOAD_V1=1`. Where
    `env_vars` (0.6 and later) does not set it, only the machine that trains can tell; `--environment` says that this is it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fine_grained_activation_offloading: true, offload_modules: [core_attn]}
    env_vars: {NVTE_CPU_OFFLOAD_V1: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fine_grained_activation_offloading: true, offload_modules: [core_attn]}
    env_vars: {NVTE_CPU_OFFLOAD_V1: 1}
    ```

    ## Upstream
    - 0.3 to 0.6: `training/config.py`, `_validate_fine_grained_activation_offloading`
    """

    code, slug = "OFL104", "offload/runtime"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(SWITCH):
            return
        impl = stated(run, ENGINE_IMPL)
        if impl != "transformer_engine":
            yield self.finding(
                run,
                REJECTED,
                ENGINE_IMPL if run.wrote(ENGINE_IMPL) else SWITCH,
                f"activation offloading needs transformer_impl transformer_engine, found {in_yaml(impl)}",
                related=(SWITCH, ENGINE_IMPL),
                fix=Fix("transformer_impl: transformer_engine", set_to(run, (ENGINE_IMPL, "transformer_engine"))),
            )
        held = variable(run, VARIABLE)
        if str(held) != "1":
            mapped = run.release >= R06 and not (run.settings.environ and VARIABLE in run.settings.environ)
            yield self.finding(
                run,
                REJECTED,
                SWITCH,
                f"activation offloading needs the environment variable {VARIABLE}=1, "
                + ("which nothing sets" if held is None else f"found {held}"),
                why=f"Transformer Engine {ENGINE} and later would offload the weights as well.",
                related=(f"env_vars.{VARIABLE}",),
                fix=Fix(
                    f"export {VARIABLE}=1" + (f", or env_vars.{VARIABLE}: 1" if mapped else ""),
                    (Edit("set", f"env_vars.{VARIABLE}", 1),) if mapped else (),
                ),
            )


RULES: tuple[Rule, ...] = (OffloadModules(), OffloadSizes(), OffloadGraphs(), OffloadRuntime())
