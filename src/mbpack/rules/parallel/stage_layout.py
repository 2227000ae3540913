"""The layout that says which layers every pipeline stage holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.document import Interpolation
from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown
from mbpack.facts.schema import Opaque
from mbpack.facts.stage_layout import (
    DECODER,
    EMBEDDING,
    ENCODER,
    LETTERS,
    LOSS,
    MTP,
    NAMES,
    Stages,
    TooLong,
    even,
    order_fault,
    parse,
)
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.model.hybrid_layers import NEW, OLD, has_provider
from mbpack.rules.parallel.stage_counts import COUNTS, FIRST, LAST, LAYERS, LAYOUT, PP, VPP, layers_of, name_of, need_layers
from mbpack.rules.stated import touched

MTP_LAYERS = "model.mtp_num_layers"

#: Above this number of layers no layout is offered.
_MOST = 1_000


class StageLayout(RejectingRule):
    """A pipeline layout must hold the embedding, every layer of the model and the loss, on a multiple of the pipeline stages.

    In the text form `E` is the embedding, `t` a decoder layer, `m` an MTP layer and `L` the loss; bars separate stages, `t*8` and
    `(tt|)*4` repeat. In the list form each stage is a list of `embedding`, `decoder`, `mtp` and `loss`. More stages than
    `pipeline_model_parallel_size` make a virtual pipeline. MTP layers stand together behind all decoder layers.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 4
      pipeline_model_parallel_layout: "Et*8|t*8|t*8|t*7L"
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 4
      num_layers_in_first_pipeline_stage: 7
      pipeline_model_parallel_layout: "Et*7|t*9|t*8|t*8L"
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 4
      pipeline_model_parallel_layout: "Et*7|t*9|t*8|t*8L"
    train: {global_batch_size: 32}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer/pipeline_parallel_layer_layout.py`, `PipelineParallelLayerLayout`;
      `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "PPL110", "pp/stage-layout"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, LAYOUT, FIRST, LAST, *COUNTS, PP, VPP, LAYERS, MTP_LAYERS, NEW, OLD):
            return
        layout = run.value(LAYOUT)
        if layout is None:
            return
        others: dict[str, Any] = dict.fromkeys(key for key in (FIRST, LAST) if run.value(key) is not None)
        others.update((key, False) for key in COUNTS if run.flag(key))
        if others:
            yield self._others(run, others)
            return
        if isinstance(layout, Opaque) or (isinstance(layout, Object) and layout.target is not None):
            return  # a layout that nobody has on record, or that the loader builds itself
        stages, fault = _read(layout, run.pp)
        if fault is None and stages is not None:
            yield from self._sizes(run, stages)
        elif fault is not None:
            yield self._refuse(run, fault, LAYOUT, _even(run))

    def _others(self, run: Run, others: dict[str, Any]) -> Finding:
        names = words(name_of(key) for key in others)
        key = LAYOUT if run.wrote(LAYOUT) else next((key for key in others if run.wrote(key)), LAYOUT)
        if key == LAYOUT:
            fix = Fix(
                words(f"{name_of(key)}: {in_yaml(value)}" for key, value in others.items()),
                set_to(run, *others.items()),
            )
        else:
            fix = Fix("pipeline_model_parallel_layout: null", set_to(run, (LAYOUT, None)))
        return self.finding(
            run,
            REJECTED,
            key,
            f"pipeline_model_parallel_layout excludes {names}",
            why="The layout says for every stage which layers it holds.",
            related=[other for other in (LAYOUT, *others) if other != key],
            fix=fix,
        )

    def _sizes(self, run: Run, stages: Stages) -> Iterator[Finding]:
        """A layout that can be read, against the sizes of the model and of the pipeline."""
        pp, vpp, flat = run.pp, run.number(VPP), [layer for stage in stages for layer in stage]
        if vpp is not None and vpp != len(stages) // pp:
            count = len(stages) // pp
            yield self._refuse(
                run,
                f"the layout has {len(stages)} stages, {count} for each of {pp} pipeline ranks, and virtual_pipeline_model_parallel_size is {vpp}",
                VPP if run.wrote(VPP) else LAYOUT,
                Fix(f"virtual_pipeline_model_parallel_size: {count}", set_to(run, (VPP, count)))
                if count > 1
                else _no_virtual(run),
            )
            return
        layers, mtp = layers_of(run), run.number(MTP_LAYERS)
        if mtp is None and has_provider(run):
            mtp = flat.count(MTP)  # a hybrid's own pattern says how many
        fault = _ends(flat)
        if fault is not None:
            yield self._refuse(run, fault, LAYOUT, _even(run))
        elif flat.count(DECODER) != layers:
            need_layers(run)
            yield self._refuse(
                run, f"the layout holds {flat.count(DECODER)} decoder layers, num_layers is {in_yaml(layers)}", LAYERS, _even(run)
            )
        elif flat.count(MTP) != (0 if mtp is None else mtp):
            text = f"the layout holds {flat.count(MTP)} MTP layers, mtp_num_layers is {in_yaml(mtp)}"
            yield self._refuse(run, text, MTP_LAYERS, _even(run))
        else:
            fault = order_fault(stages, pp)
            if fault is None and ENCODER in flat:
                fault = "encoder layers cannot be laid out"
            if fault is not None:
                yield self._refuse(run, fault, LAYOUT, _even(run))

    def _refuse(self, run: Run, message: str, key: str, fix: Fix) -> Finding:
        """A finding at the layout where the user wrote it, else at the size that no longer fits it."""
        key = next((known for known in (LAYOUT, key, PP) if run.wrote(known)), key)
        return self.finding(
            run,
            REJECTED,
            key,
            f"pipeline_model_parallel_layout: {message}",
            why="The start-up takes every layer of every stage from the layout.",
            related=[other for other in (LAYOUT, PP, VPP, LAYERS, MTP_LAYERS) if other != key and run.maybe(other) is not None],
            fix=fix,
        )


def _read(layout: Any, pp: int) -> tuple[Stages | None, str | None]:
    """The stages of a layout, and what stops upstream from reading them.

    Raises:
        Unknown: the text repeats so much that nobody writes it out, or the list holds expressions.
    """
    if isinstance(layout, str):
        try:
            stages: Any = parse(layout)
        except TooLong:
            raise Unknown(LAYOUT, (), "more repetitions than are written out") from None
        except KeyError as strange:
            return None, f"{strange.args[0]!r} stands for no layer; known are {words(LETTERS)}"
    elif isinstance(layout, list):
        stages = layout
    else:
        return None, f"must be text or a list of lists, found {layout!r}"
    if any(isinstance(stage, Interpolation) for stage in stages):
        raise Unknown(LAYOUT, (), "an expression stands in the place of a stage")
    if not all(isinstance(stage, list) for stage in stages):
        return None, "the list form needs a list for every stage"
    if pp <= 0:
        return None, None
    if len(stages) % pp:
        return None, f"{len(stages)} stages are no multiple of pipeline parallel {pp}"
    names: list[list[str]] = []
    for stage in stages:
        for layer in stage:
            if isinstance(layer, Interpolation):
                raise Unknown(LAYOUT, (), "an expression stands in the place of a layer")
            if not isinstance(layer, str) or layer.strip().lower() not in NAMES:
                return None, f"{layer!r} is no layer; known are {words(NAMES[:-1])}"
        names.append([layer.strip().lower() for layer in stage])
    return names, None


def _ends(flat: list[str]) -> str | None:
    """What is wrong with where the embedding and the loss stand."""
    if not flat:
        return "no stage holds a layer"
    if flat[0] != EMBEDDING:
        return f"the first layer must be the embedding, found {flat[0]}"
    if flat[-1] != LOSS:
        return f"the last layer must be the loss, found {flat[-1]}"
    for layer in (EMBEDDING, LOSS):
        if flat.count(layer) != 1:
            return f"the {layer} must stand there once, found {flat.count(layer)}"
    return None


def _even(run: Run) -> Fix:
    """A layout that fits the model, in the text form."""
    pp, vpp, layers, mtp = run.pp, run.maybe(VPP), run.maybe(LAYERS), run.maybe(MTP_LAYERS)
    stages = pp * (vpp if isinstance(vpp, int) and vpp > 0 else 1)
    sized = isinstance(layers, int) and (mtp is None or isinstance(mtp, int)) and 0 < layers <= _MOST and 0 <= (mtp or 0) <= _MOST
    if not sized or not 0 < stages <= _MOST:
        return Fix("embedding, every layer of the model and loss, on a multiple of the pipeline stages")
    text = even(stages, layers, mtp or 0)
    return Fix(f"such as {text}", set_to(run, (LAYOUT, text)))


def _no_virtual(run: Run) -> Fix:
    return Fix("virtual_pipeline_model_parallel_size: null", set_to(run, (VPP, None)))


RULES: tuple[Rule, ...] = (StageLayout(),)
