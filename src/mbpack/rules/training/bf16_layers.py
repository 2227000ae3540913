"""The first and last layers that stay in BF16 while the others compute in FP8."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.precision import SECTION
from mbpack.config.run import Run
from mbpack.facts.keys import LAYERS, PP
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to
from mbpack.rules.parallel.stage_counts import layers_of, need_layers
from mbpack.rules.training.fp8_fields import final, place_of

COUNTS = ("num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16")


class Bf16Layers(RejectingRule):
    """Layers at the ends that stay in BF16 are as many as fit a pipeline stage, and delayed scaling has none.

    With FP8 and `first_last_layers_bf16`, neither count may be negative or above the layers of a stage (layers / PP).

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true, fp8: hybrid, fp8_recipe: tensorwise, first_last_layers_bf16: true, num_layers_at_start_in_bf16: 33}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true, fp8: hybrid, fp8_recipe: delayed, first_last_layers_bf16: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true, fp8: hybrid, fp8_recipe: tensorwise, first_last_layers_bf16: true, num_layers_at_start_in_bf16: 2}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "PRC107", "prec/bf16-layers"

    def check(self, run: Run) -> Iterator[Finding]:
        if not final(run, "fp8") or not final(run, "first_last_layers_bf16"):
            return
        if final(run, "fp8_recipe") == "delayed":
            switch, recipe = place_of(run, "first_last_layers_bf16"), place_of(run, "fp8_recipe")
            yield self.finding(
                run,
                REJECTED,
                switch if run.wrote(switch) or not run.wrote(recipe) else recipe,
                "delayed scaling does not go with first_last_layers_bf16: true",
                why="It scales by a history that layers in BF16 do not write.",
                related=(switch, recipe),
                fix=Fix("first_last_layers_bf16: false", set_to(run, (switch, False)) if switch != SECTION else ()),
            )
            return
        for name in COUNTS:
            yield from self._count(run, name)

    def _count(self, run: Run, name: str) -> Iterator[Finding]:
        key, count = place_of(run, name), final(run, name)
        if key.endswith(name):
            count = run.number(key)
        layers = layers_of(run)
        if layers is None or run.pp == 0:  # a negative size divides, and comes later: topo/world-divisible@pipeline
            return
        most = layers // run.pp
        if count is not None and 0 <= count <= most:
            return
        if count is not None and count > most:
            need_layers(run)
        nearest = 0 if count is None else max(0, min(count, most))
        yield self.finding(
            run,
            REJECTED,
            key if run.wrote(key) else next((other for other in (LAYERS, PP) if run.wrote(other)), key),
            f"{name} must be between 0 and {most}, found {in_yaml(count)}",
            why=f"A pipeline stage has {layers} // {run.pp} = {most} layers.",
            related=(key, LAYERS, PP),
            fix=Fix(f"{name}: {nearest}", set_to(run, (key, nearest)) if key != SECTION else ()),
        )


RULES: tuple[Rule, ...] = (Bf16Layers(),)
