"""Activation recompute: what it needs, and what it does not combine with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mbpack.config.graphs import IMPL
from mbpack.config.run import Run
from mbpack.config.settings import Origin, Unknown, WrongKind
from mbpack.facts.recomputation import recompute_module_names
from mbpack.facts.releases import R03, R05, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words

FORMER = "model.moe_layer_recompute"


def recompute_modules(run: Run) -> Any:
    """The names of the modules to recompute, None where unset.

    Raises:
        WrongKind: the value is no list of names; upstream looks for names in it.
    """
    setting = run.setting("model.recompute_modules")
    value = run.value("model.recompute_modules")
    if value is not None and not isinstance(value, (list, tuple, str)):
        raise WrongKind(setting)
    return value


def selective_modules(run: Run) -> Sequence[str]:
    """The names of the modules that selective recompute covers, none where it is off; the former switch adds expert layers.

    Raises:
        WrongKind: the value is no list of names.
    """
    former = run.wrote(FORMER) and run.flag(FORMER)
    if not former and run.value("model.recompute_granularity") != "selective":
        return ()
    held = recompute_modules(run)
    names = ("core_attn",) if held is None else held
    return (*names, "moe") if former else names


class RecomputeModuleNames(RejectingRule):
    """Selective activation recompute takes a list of module names that Megatron-Core knows.

    Text is taken letter by letter, and a switch or number has no length. Newer releases than 0.6 may know more names.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [attention]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [core_attn]}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "REC104", "recompute/modules"
    releases = (R03, R06)

    def check(self, run: Run) -> Iterator[Finding]:
        key = "model.recompute_modules"
        if not run.wrote(key) or run.value("model.recompute_granularity") != "selective":
            return  # recipes name modules of their own model classes
        modules = run.value(key)
        if modules is None:
            return
        recipe = run.settings.recipe
        known = recompute_module_names(run.release) | set((recipe.values.get(key) or ()) if recipe is not None else ())
        if not isinstance(modules, (list, tuple, str)):
            message = f"recompute_modules is {modules!r}, not a list of names"
        else:
            wrong = [name for name in modules if not isinstance(name, str) or name not in known]
            if not wrong:
                return
            message = (
                f"recompute_modules is the text {modules!r}, not a list of names"
                if isinstance(modules, str)
                else f"recompute_modules does not know {wrong[0]}"
            )
        listed = isinstance(modules, str) and modules in known
        yield self.finding(
            run,
            REJECTED,
            key,
            message,
            why=f"Selective recompute takes {words(sorted(known))}.",
            related=("model.recompute_granularity",),
            fix=Fix(f"recompute_modules: [{modules}]", set_to(run, (key, [modules])), safe=True)
            if listed
            else Fix("a list of these names"),
        )


class FullRecomputeWithGraphs(RejectingRule):
    """Full recompute works with full-iteration graphs only.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      recompute_granularity: full
      recompute_method: uniform
      recompute_num_layers: 1
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [mlp]
      use_te_rng_tracker: true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      recompute_granularity: selective
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [mlp]
      use_te_rng_tracker: true
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "REC102", "recompute/full-with-te-graphs"

    def check(self, run: Run) -> Iterator[Finding]:
        granularity = run.value("model.recompute_granularity")
        graphs = run.graphs
        if not granularity or granularity == "selective" or not graphs.enabled:
            return
        fine = graphs.modules == ("full_iteration",) if run.release < R05 else graphs.core_impl == "full_iteration"
        if not fine:
            yield self.finding(
                run,
                REJECTED,
                "model.recompute_granularity",
                f"recompute_granularity {granularity} works with full-iteration graphs only",
                related=(IMPL, graphs.key),
                fix=Fix("cuda_graph_impl: none, or selective recompute", set_to(run, (IMPL, "none"))),
            )


class GraphedDropout(RejectingRule):
    """A recomputed module inside a CUDA graph must not draw random numbers.

    A graph replays the same kernels, so a dropout mask could not be drawn again for the recomputation. Selective
    recompute of `core_attn` (its default) therefore needs `attention_dropout: 0.0` where the graph covers attention,
    that of `mlp` or `moe` needs `hidden_dropout: 0.0`, and that of `moe` no `moe_input_jitter_eps`. A graph without
    scopes covers the whole layer.

    ## Bad
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model:
      recompute_granularity: selective
      attention_dropout: 0.1
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [attn]
      use_te_rng_tracker: true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model:
      recompute_granularity: selective
      attention_dropout: 0.0
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [attn]
      use_te_rng_tracker: true
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "REC103", "recompute/graphed-dropout"

    #: The value that must be off, for each recomputed module, and the capture scope that covers the module.
    DRAWS = (
        ("core_attn", "attn", "model.attention_dropout", 0.0),
        ("mlp", "mlp", "model.hidden_dropout", 0.0),
        ("moe", "moe", "model.hidden_dropout", 0.0),
        ("moe", "moe", "model.moe_input_jitter_eps", None),
    )

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.graphs.enabled:
            return
        recomputed = selective_modules(run)
        scopes = run.graphs.modules
        whole = not scopes or "full_iteration" in scopes or (run.release >= R05 and run.graphs.core_impl == "full_iteration")
        said: set[str] = set()
        for module, scope, key, off in self.DRAWS:
            if module not in recomputed or not (whole or scope in scopes) or key in said:
                continue
            value = self._drawn(run, key, off)
            if value == off:
                continue
            said.add(key)
            yield self.finding(
                run,
                REJECTED,
                key,
                f"{key.partition('.')[2]} {value} inside a CUDA graph excludes recompute of {module}",
                why="The recomputation would have to draw the same random numbers again, which a replayed graph cannot.",
                related=("model.recompute_granularity", "model.recompute_modules", run.graphs.key),
                fix=Fix(f"{key.partition('.')[2]}: {in_yaml(off)}", set_to(run, (key, off))),
            )

    @staticmethod
    def _drawn(run: Run, key: str, off: float | None) -> Any:
        """The probability; a recipe whose data leave it out may set another one than its class."""
        recipe = run.settings.recipe
        if recipe is not None and not recipe.complete and run.setting(key).origin is Origin.DEFAULT:
            raise Unknown(key, (), "the recipe may set it")
        return run.number(key, off)


RULES: tuple[Rule, ...] = (RecomputeModuleNames(), FullRecomputeWithGraphs(), GraphedDropout())
