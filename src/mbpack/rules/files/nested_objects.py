"""Objects inside a section that arrive as something else: a plain dictionary, text, a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mbpack.config.run import Run
from mbpack.config.settings import Object, Origin
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS, path_in, specs_target
from mbpack.facts.releases import R06
from mbpack.rules.base import LAUNCHER_SETS, NOTE, REJECTED, Edit, Finding, Fix, RejectingRule, Rule, in_yaml, set_to


class Held(NamedTuple):
    """An object that a dataset class holds (0.6 and later), and what the start-up asks of it first.

    ``switch`` is the key without which the start-up does not look; ``required`` says that null will not do either.
    """

    key: str
    kinds: tuple[DatasetKind, ...]
    station: str
    switch: str = ""
    required: bool = False


TRANSFORMER, TP_OVERLAP = "model.transformer", "comm_overlap.tp_comm_overlap_cfg"
_SFT, _DIRECT, _ENERGON = (DatasetKind.GPT_SFT,), (DatasetKind.DIRECT_HF,), (DatasetKind.ENERGON,)
HELD = (
    Held("dataset.hf_dataset", _SFT, "data/hf-source"),
    Held("dataset.hf_validation_dataset", _SFT, "data/hf-source"),
    Held("dataset.hf_test_dataset", _SFT, "data/hf-source"),
    Held("dataset.preprocessing", _SFT, "data/preprocessing"),
    Held("dataset.preprocessing", _DIRECT, "data/preprocessing@direct", required=True),
    Held("dataset.source", _DIRECT, "data/hf-source@direct", required=True),
    Held("dataset.validation_source", _DIRECT, "data/hf-source@direct", "dataset.do_validation"),
    Held("dataset.test_source", _DIRECT, "data/hf-source@direct", "dataset.do_test"),
    Held("dataset.task_encoder", _ENERGON, "nrg/encoder-type", required=True),
)

#: Sections that may be null, with the station where the start-up asks one that is not.
OPTIONAL = {
    "comm_overlap": "comm-overlap",
    "mixed_precision": "section:mixed_precision",
    "profiling": "section:profiling",
    "nvrx_straggler": "section:nvrx_straggler",
    "tensor_inspect": "section:tensor_inspect",
}


class NestedUnderNone(RejectingRule):
    """A mapping below a null field needs a _target_.

    Without one the field becomes a plain dictionary, and the start-up fails on the first attribute it asks for; so
    does text, a number or a boolean in the place of an object. When the recipe already holds the object, the mapping is
    merged into it and no `_target_` is needed, unless the section itself names a `_target_`: then it is made anew, and
    all objects the recipe holds in it arrive as plain dictionaries.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=glm45_air_106b_sft_config gpus=32 launcher=script
    dataset:
      enable_offline_packing: true
      offline_packing_specs: {packed_sequence_size: 2048}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=glm45_air_106b_sft_config gpus=32 launcher=script
    dataset:
      enable_offline_packing: true
      offline_packing_specs:
        _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs
        packed_sequence_size: 2048
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate` (AttributeError on a dict)
    - 0.6, 0.7: the dataset `validate` methods, `data/sft_processing.py`, `validate_sft_preprocessing_config` (TypeError)
    """

    code, slug = "CFG104", "cfg/nested-under-none"
    programs = False
    about_the_recipe = True

    def check(self, run: Run) -> Iterator[Finding]:
        yield from self._specs(run)
        if run.complete:
            yield from self._model(run)
        else:
            yield from self._remade(run)
        yield from self._sections(run)
        yield from self._transformer(run)
        yield from self._tp_overlap(run)
        if run.release >= R06:
            yield from self._held(run)

    def _specs(self, run: Run) -> Iterator[Finding]:
        written = run.settings.written(SPECS)
        if written is None or written.value is None or run.settings.target_at(SPECS) is not None:
            return
        target = specs_target(run.release)
        path = path_in(run.release, SPECS)
        if not isinstance(written.value, Object):
            if run.settings.base_known:
                yield self.finding(
                    run,
                    REJECTED,
                    SPECS,
                    f"{path} is {in_yaml(written.value)}, not a mapping of packing specs",
                    why="The start-up asks it for an attribute and fails."
                    + ("" if run.release >= R06 else " Only null switches packing off."),
                    fix=Fix(f"{path}: null (not packed), or a mapping with _target_ {target}", set_to(run, (SPECS, None))),
                )
            return
        fix = Fix(f"_target_: {target}", (Edit("set", f"{path}._target_", target),), safe=True)
        if not run.settings.base_known:
            # a recipe of one's own, or a wrapper's dataset: nothing is known of the specs there
            own = run.context.own_recipe is not None or "dataset" in run.context.clouded
            yield self.finding(
                run,
                NOTE if own else NOTE.as_warning(),
                SPECS,
                f"{path} has no _target_: right only when the recipe already holds specs",
                why="Below a null field the mapping becomes a plain dictionary and the start-up fails.",
                on_key=True,
                fix=fix,
            )
            return
        if not run.specs_plain:
            return
        if run.repaired and run.flag(OFFLINE_SWITCH):
            yield self.finding(run, LAUNCHER_SETS, SPECS, "run_recipe.py turns this mapping into specs", on_key=True, fix=fix)
            return
        recipe = run.settings.recipe
        if run.complete:
            origin = "the file gives it"
        elif recipe is not None and recipe.holds(SPECS):
            origin = "the dataset is made anew by its _target_ and the mapping has"
        else:
            origin = "the recipe holds null there and the mapping has"
        yield self.finding(
            run,
            REJECTED,
            SPECS,
            f"{path} becomes a plain dictionary: {origin} no _target_",
            why="The start-up asks a dictionary for an attribute and fails.",
            on_key=True,
            fix=fix,
        )

    def _model(self, run: Run) -> Iterator[Finding]:
        """The other sections have a class of their own; which model it is only the file can say."""
        written = run.settings.written("model")
        if written is not None and isinstance(written.value, Object) and run.settings.target_at("model") is None:
            yield self.finding(
                run,
                REJECTED,
                "model",
                "section model becomes a plain dictionary: the file gives it no _target_",
                why="The start-up asks it for tensor_model_parallel_size and fails.",
                on_key=True,
                fix=Fix("_target_: the model's provider class"),
                station="section:model@start",
            )

    def _remade(self, run: Run) -> Iterator[Finding]:
        """The recipe's nested objects arrive as plain dictionaries in a dataset that a ``_target_`` makes anew."""
        recipe, target = run.settings.recipe, run.settings.target_at("dataset")
        if recipe is None or target is None or not run.settings.classes.remade(("dataset",)):
            return
        fields = run.settings.schema.fields(run.dataset_class) or {}
        for key, station in ((SPECS, self.slug), *self._looked_at(run)):
            name = path_in(run.release, key).partition(".")[2]
            if recipe.holds(key) and run.setting(key).origin is Origin.RECIPE and name in fields:
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"the recipe's {path_in(run.release, key)} arrives as a plain dictionary: the dataset is made anew by its _target_",
                    why="Nested objects of the recipe lose their class on the way into a new dataset object.",
                    setting=target,
                    fix=self._not_anew(run, key),
                    station=station,
                )

    def _transformer(self, run: Run) -> Iterator[Finding]:
        """Model classes from 0.4 on that hold the transformer's settings in an object of their own."""
        written = run.settings.written(TRANSFORMER)
        if written is None:
            return
        cls = run.settings.class_at("model")
        if cls is None:
            return
        given = isinstance(written.value, Object)
        if given and (not run.complete or written.value.target is not None):
            return
        if run.settings.schema.nested_transformer(cls):
            what = "a mapping without _target_" if given else in_yaml(written.value)
            message = f"{TRANSFORMER} is {what}, not the object that holds the model's settings"
            why = "The start-up asks it for tensor_model_parallel_size and fails."
            yield self._no_object(run, TRANSFORMER, message, why, "section:model@start")

    def _tp_overlap(self, run: Run) -> Iterator[Finding]:
        """The plan of a tensor parallel overlap that is on: its fields are copied one by one."""
        written = run.settings.written(TP_OVERLAP)
        if written is None or written.value is None or not isinstance(run.value("comm_overlap"), Object):
            return
        asked = run.value("comm_overlap.tp_comm_overlap")
        if not asked or (asked is True and (run.tp < 2 or not run.sp_asked)) or run.settings.class_at(TP_OVERLAP) is not None:
            return  # switched off by the section itself, or an object
        message = f"{TP_OVERLAP} is not an object of its class"
        yield self._no_object(run, TP_OVERLAP, message, "The start-up copies its fields and fails.", "comm-overlap", ", or null")

    def _no_object(self, run: Run, key: str, message: str, why: str, station: str, otherwise: str = "") -> Finding:
        fix = Fix(f"a mapping with the _target_ of its class below {key}{otherwise}")
        return self.finding(run, REJECTED, key, message, why=why, on_key=True, fix=fix, station=station)

    @staticmethod
    def _not_anew(run: Run, key: str) -> Fix:
        """Where the recipe's dataset is of the class that the file names, naming it does nothing but harm."""
        recipe = run.settings.recipe
        if recipe is not None and recipe.dataset_class == run.dataset_class:
            edits = (Edit("delete", "dataset._target_"),)
            return Fix("remove dataset._target_: the recipe's dataset is of this class already", edits)
        held = recipe.value(key) if recipe is not None else None
        if not isinstance(held, Mapping):
            return Fix(f"remove dataset._target_, or give {path_in(run.release, key)} with a _target_ of its own")
        target = Edit("set", f"{path_in(run.release, key)}._target_", held["_target_"])
        return Fix(f"{target.key}: {held['_target_']}; or remove dataset._target_", (target,))

    @staticmethod
    def _looked_at(run: Run) -> Iterator[tuple[str, str]]:
        """Keys of the objects that the start-up asks something of, with the station where it does."""
        if run.release < R06:
            return
        for held in HELD:
            if run.dataset in held.kinds and (not held.switch or run.flag(held.switch)):
                yield held.key, held.station

    def _held(self, run: Run) -> Iterator[Finding]:
        """Objects of the dataset that the user gave as something else."""
        remade = not run.complete and run.settings.classes.remade(("dataset",))
        required = {held.key for held in HELD if held.required and run.dataset in held.kinds}
        for key, station in self._looked_at(run):
            written = run.settings.written(key)
            if written is None or not run.settings.base_known:
                continue
            value = written.value
            if value is None and key not in required:
                continue
            if isinstance(value, Object) and (value.target is not None or not self._plain(run, key, remade)):
                continue
            what = "a mapping without _target_" if isinstance(value, Object) else "null" if value is None else repr(value)
            message = f"{key} is {what}, not an object of its class"
            yield self._no_object(run, key, message, "The start-up asks it to validate itself and fails.", station)

    @staticmethod
    def _plain(run: Run, key: str, remade: bool) -> bool:
        """Whether a mapping without a class stays a dictionary, instead of being merged into the recipe's object."""
        run.settings.classes.check_clouds(key, tuple(key.split(".")))  # another dataset may be in the recipe's place
        return remade or run.settings.class_at(key) is None

    def _sections(self, run: Run) -> Iterator[Finding]:
        """Sections that may be null and get something else than an object of their class."""
        recipe = run.settings.recipe
        if recipe is None and not run.complete:
            return
        for name, station in OPTIONAL.items():
            written = run.settings.written(name)
            if written is None or written.value is None or run.settings.target_at(name) is not None:
                continue
            if isinstance(written.value, Object):
                if (recipe is not None and isinstance(recipe.values.get(name), dict)) or name == "profiling":
                    continue  # merged into what the recipe holds
                what = "becomes a plain dictionary: it has no _target_"
            elif name == "mixed_precision" and isinstance(written.value, str):
                continue  # a name: prec/unknown-name
            else:
                what = f"is {written.value!r} instead of a mapping"
            yield self.finding(
                run,
                REJECTED,
                name,
                f"section {name} {what}",
                why="The start-up asks it to complete itself and fails.",
                on_key=True,
                fix=Fix(
                    "a name such as bf16_mixed, or null"
                    if name == "mixed_precision"
                    else "a mapping with _target_ and the section's class, or null"
                ),
                station=station,
            )


RULES: tuple[Rule, ...] = (NestedUnderNone(),)
