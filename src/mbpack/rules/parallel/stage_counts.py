"""Counts of layers for the first and the last pipeline stage, and embedding and loss that are counted as layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.hybrid_patterns import layers_in
from mbpack.facts.releases import R04
from mbpack.facts.stage_split import EXTRAS, Fault, counted, fitting, middle, uneven
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.model.hybrid_layers import NEW, OLD, has_provider
from mbpack.rules.stated import touched

PP, VPP = "model.pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size"
LAYERS, LAYOUT = "model.num_layers", "model.pipeline_model_parallel_layout"
FIRST, LAST = "model.num_layers_in_first_pipeline_stage", "model.num_layers_in_last_pipeline_stage"
COUNTS = tuple(f"model.account_for_{name}_in_pipeline_split" for name in EXTRAS)

#: Above this number of layers no fitting count is looked for.
_MOST = 10_000


def layers_of(run: Run) -> int | float | None:
    """The layers of the decoder; a hybrid's pattern says how many where `num_layers` is null."""
    layers: int | float | None = run.number(LAYERS)
    if layers is None and run.release >= R04 and has_provider(run):
        pattern = run.value(NEW) if run.value(OLD) is None else run.value(OLD)
        return layers_in(pattern) if isinstance(pattern, str) else None
    return layers


def need_layers(run: Run) -> None:
    """Asked before a refusal that rests on the number of layers.

    Raises:
        Unknown: the number is a guess, or the recipe's data leave it out.
    """
    recipe = run.settings.recipe
    if recipe is None or run.wrote(LAYERS):
        return
    held = {key for key in (LAYERS, "model.transformer.num_layers") if key in recipe.values}
    if held & recipe.guessed or not (held or recipe.complete):
        raise Unknown(LAYERS, (), "nobody has the number of layers of this recipe on record")


def counts_unknown(run: Run) -> bool:
    """Whether the recipe's data leave out if embedding and loss count as layers."""
    recipe = run.settings.recipe
    if recipe is None or recipe.complete:
        return False
    return any(not run.wrote(key) and key not in recipe.values for key in COUNTS)


def _blame(run: Run, *keys: str) -> str:
    """The first key that the user wrote, else the first of all."""
    return next((key for key in keys if run.wrote(key)), keys[0])


class Split(NamedTuple):
    """The numbers a split is judged by."""

    layers: int | float
    pp: int
    vpp: int | None
    first: int | float | None
    last: int | float | None


class StageCounts(RejectingRule):
    """The layers left between the first and the last pipeline stage must divide by the stages between them.

    `num_layers_in_first_pipeline_stage` and `num_layers_in_last_pipeline_stage` take their layers first; the others are split evenly.
    Both must be positive, and every stage must divide by the virtual pipeline. `account_for_embedding_in_pipeline_split` and
    `account_for_loss_in_pipeline_split` count the embedding and the loss as one layer each; then all that is counted must divide. The
    two ways exclude each other.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 4, num_layers_in_first_pipeline_stage: 7}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 4, account_for_embedding_in_pipeline_split: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 4, num_layers_in_first_pipeline_stage: 8}
    train: {global_batch_size: 32}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "PPL109", "pp/stage-counts"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, FIRST, LAST, *COUNTS, PP, VPP, LAYERS, LAYOUT, NEW, OLD):
            return
        given = [key for key in (FIRST, LAST) if run.value(key) is not None]
        extras = [key for key in COUNTS if run.flag(key)]
        if given and extras:
            yield self._both(run, given, extras)
        elif (given or extras) and run.value(LAYOUT) is None:
            yield from self._uneven(run) if given else self._counted(run, extras)

    def _both(self, run: Run, given: list[str], extras: list[str]) -> Finding:
        key = _blame(run, *extras, *given)
        off = dict.fromkeys(given) if key in extras else dict.fromkeys(extras, False)
        return self.finding(
            run,
            REJECTED,
            key,
            f"{words(name_of(other) for other in (*extras, *given))} cannot be set together",
            why="A stage gets either a number of layers of its own or an even share of all that is counted.",
            related=[other for other in (*extras, *given) if other != key],
            fix=Fix(
                words(f"{name_of(other)}: {in_yaml(value)}" for other, value in off.items()),
                set_to(run, *off.items()),
            ),
        )

    def _uneven(self, run: Run) -> Iterator[Finding]:
        """Stages with a count of their own."""
        layers = layers_of(run)
        if layers is None:
            return
        split = Split(layers, run.pp, run.vpp, run.number(FIRST), run.number(LAST))
        fault = uneven(*split)
        if fault is not None:
            if fault in (Fault.MISMATCH, Fault.MIDDLE, Fault.MIDDLE_VIRTUAL):
                need_layers(run)
            key = self._key(run, fault, split)
            yield self.finding(
                run,
                REJECTED,
                key,
                _message(fault, split),
                why="The layers between the first and the last stage are split evenly over the other stages.",
                related=[other for other in (FIRST, LAST, PP, VPP, LAYERS) if other != key and run.maybe(other) is not None],
                fix=_fix(run, key, split),
            )

    @staticmethod
    def _key(run: Run, fault: Fault, split: Split) -> str:
        if fault is Fault.LAST_EMPTY:
            return LAST
        if fault in (Fault.FIRST_VIRTUAL, Fault.LAST_VIRTUAL):
            return _blame(run, FIRST if fault is Fault.FIRST_VIRTUAL else LAST, VPP)
        ends = [key for key, count in ((FIRST, split.first), (LAST, split.last)) if count is not None]
        return _blame(run, *ends, *((VPP,) if fault is Fault.MIDDLE_VIRTUAL else ()), PP, LAYERS)

    def _counted(self, run: Run, extras: list[str]) -> Iterator[Finding]:
        """An even split of the layers and of what counts as one."""
        layers, pp, vpp = layers_of(run), run.pp, run.vpp
        if layers is None or pp <= 0:
            return
        total = layers + len(extras)
        fault = counted(total, pp, vpp)
        if fault is None:
            return
        need_layers(run)
        if counts_unknown(run):
            raise Unknown(COUNTS[0], (), "the recipe may count the embedding and the loss as layers")
        terms = f"{layers} layers, with {words(extra.split('_')[2] for extra in extras)} {total},"
        message = f"{terms} cannot be divided over {pp} pipeline stages"
        if fault is Fault.STAGES_VIRTUAL:
            message = f"{terms} give {total // pp} a stage, which cannot be divided over {vpp} virtual stages"
        yield self.finding(
            run,
            REJECTED,
            _blame(run, *extras, *((VPP,) if fault is Fault.STAGES_VIRTUAL else ()), PP, LAYERS),
            message,
            why="Embedding and loss take the place of a layer each, and every stage must get the same number.",
            related=(*extras, PP, VPP, LAYERS),
            fix=self._other_extras(run, layers, pp, vpp),
        )

    @staticmethod
    def _other_extras(run: Run, layers: int | float, pp: int, vpp: int | None) -> Fix:
        """The nearest choice of what counts with which the split works out."""
        for chosen in ((True, True), (True, False), (False, False)):
            if counted(layers + sum(chosen), pp, vpp) is None:
                title = words(f"{name_of(key)}: {in_yaml(value)}" for key, value in zip(COUNTS, chosen, strict=True))
                return Fix(title, set_to(run, *zip(COUNTS, chosen, strict=True)))
        return Fix("sizes that divide what is counted, or pipeline_model_parallel_layout")


def name_of(key: str) -> str:
    """A key without its section."""
    return key.rpartition(".")[2]


def _message(fault: Fault, split: Split) -> str:
    layers, pp, vpp, first, last = split
    left, stages = middle(layers, pp, first, last)
    taken = " and ".join(f"{count} in the {name}" for name, count in (("first", first), ("last", last)) if count is not None)
    rest = f"{layers} layers, {taken} stage"
    if fault is Fault.FIRST_EMPTY:
        return f"num_layers_in_first_pipeline_stage must be positive, found {first}"
    if fault is Fault.LAST_EMPTY:
        return f"num_layers_in_last_pipeline_stage must be positive, found {last}"
    if fault in (Fault.FIRST_VIRTUAL, Fault.LAST_VIRTUAL):
        name, count = ("first", first) if fault is Fault.FIRST_VIRTUAL else ("last", last)
        return f"{count} layers in the {name} stage cannot be divided over {vpp} virtual stages"
    if fault is Fault.MISMATCH:
        return f"{rest}: {left} layers and {stages} of {pp} pipeline stages are left"
    if fault is Fault.MIDDLE:
        return f"{rest}: {left} layers cannot be divided over the {stages} stages left"
    return f"{rest}: {left // stages} layers on each stage left cannot be divided over {vpp} virtual stages"


def _fix(run: Run, key: str, split: Split) -> Fix:
    layers, pp, vpp, first, last = split
    change_first = key == FIRST or (key != LAST and first is not None)
    whole = all(isinstance(count, int) or count is None for count in split)
    if whole and layers <= _MOST and pp > 1:
        target = FIRST if change_first else LAST
        count = fitting(int(layers), pp, vpp, first, last, change_first=change_first)  # type: ignore[arg-type]
        if count is not None:
            return Fix(f"{name_of(target)}: {count}", set_to(run, (target, count)))
    ends = [end for end, given in ((FIRST, first), (LAST, last)) if given is not None]
    return Fix(words(f"{name_of(end)}: null" for end in ends), set_to(run, *((end, None) for end in ends)))


RULES: tuple[Rule, ...] = (StageCounts(),)
