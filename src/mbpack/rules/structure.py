"""The shape of the file: sections that are null or lists, mappings without a class, classes that cannot be made."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import MISSING, Interpolation, Item
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Object, Setting
from mbpack.facts.keys import path_in, specs_target
from mbpack.facts.releases import R04, R05, R06, RELEASES
from mbpack.facts.schema import schema
from mbpack.facts.sections import stops_at
from mbpack.facts.targets import CALLABLE_FIELDS, is_blocked
from mbpack.rules.base import (
    CRASH_DATA,
    IGNORED,
    LAUNCHER_SETS,
    NOTE,
    REJECTED,
    REJECTED_LOAD,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
)

SPECS = "dataset.offline_packing_specs"


def _setting(path: str, item: Item, layer: Layer) -> Setting:
    return Setting(path, item.value, layer.origin, item, layer.document)


class SectionNull(RejectingRule):
    """A section with only comments below it is null.

    Null replaces the whole section: the start-up then fails on the first attribute it asks for. `dataset: null` passes
    the validation, and no packing check runs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train:
      # micro_batch_size: 1
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # train:
    #   micro_batch_size: 1
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate` (AttributeError)
    """

    code, slug = "CFG107", "cfg/section-null"

    def check(self, run: Run) -> Iterator[Finding]:
        for name, item, layer in run.settings.sections():
            if isinstance(item.value, (dict, Interpolation)) or item.value is MISSING:
                continue
            if isinstance(item.value, list) and not run.complete:
                continue  # refused while merging: cfg/list-over-dict
            final = run.settings.peek(name)
            if final is None or final.item is not item or name not in run.settings.schema.sections:
                continue
            station = stops_at(run.release, name)
            if name == "dataset":
                yield self._say(run, name, item, layer, "", "no packing check runs, and building the data fails")
            elif station is not None:
                yield self._say(run, name, item, layer, station, "the start-up fails on its first attribute")

    def _say(self, run: Run, name: str, item: Item, layer: Layer, station: str, effect: str) -> Finding:
        shown = "null" if item.value is None else f"{item.value!r} instead of a mapping"
        return self.finding(
            run,
            REJECTED if station else CRASH_DATA,
            name,
            f"section {name} is {shown}: {effect}",
            why="A key with only comments below it is null, and null replaces the recipe's whole section."
            if item.value is None
            else "",
            setting=_setting(name, item, layer),
            on_key=True,
            fix=Fix(f"delete the line `{name}:` or give it a value", (Edit("delete", name),), safe=True),
            station=station,
        )


class ListOverDict(RejectingRule):
    """A list cannot replace a mapping.

    The merge onto the recipe is refused.

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `process_config_with_overrides` (ConfigTypeError)
    """

    code, slug = "CFG113", "cfg/list-over-dict"

    #: Sections that are null in most recipes: a list there is merged without complaint.
    OPTIONAL = frozenset(
        {"peft", "comm_overlap", "mixed_precision", "ft", "nvrx_straggler", "straggler", "tensor_inspect", "inprocess_restart"}
    )

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete:
            return
        for name, item, layer in run.settings.sections():
            if isinstance(item.value, list) and name in run.settings.schema.sections and name not in self.OPTIONAL:
                yield self._say(run, name, item, layer)
            elif isinstance(item.value, dict) and name in run.settings.schema.sections:
                yield from self._inside(run, name, item, layer)

    def _inside(self, run: Run, section: str, item: Item, layer: Layer) -> Iterator[Finding]:
        recipe = run.settings.recipe
        if recipe is None:
            return
        for name, child in item.value.items():
            path = f"{section}.{name}"
            if isinstance(child.value, list) and isinstance(self._held(run, path), dict):
                yield self._say(run, path, child, layer)

    @staticmethod
    def _held(run: Run, path: str) -> object:
        recipe = run.settings.recipe
        canonical = SPECS if path == path_in(run.release, SPECS) else path
        return recipe.values.get(canonical) if recipe is not None else None

    def _say(self, run: Run, path: str, item: Item, layer: Layer) -> Finding:
        return self.finding(
            run,
            REJECTED_LOAD,
            path,
            f"{path} is a list where the recipe has a mapping",
            setting=_setting(path, item, layer),
            on_key=True,
            fix=self._as_mapping(path, item),
            station="load",
        )

    @staticmethod
    def _as_mapping(path: str, item: Item) -> Fix:
        """Items that are mappings, or names and values in turn, say what the mapping was meant to be."""
        title, items = "key: value lines instead of list items", item.plain
        if items and all(isinstance(entry, dict) for entry in items):
            pairs = [pair for entry in items for pair in entry.items()]
        elif items and len(items) % 2 == 0:
            pairs = list(zip(items[::2], items[1::2], strict=True))
        else:
            return Fix(title)
        meant = dict(pairs)
        if len(meant) < len(pairs) or not all(isinstance(name, str) and name.isidentifier() for name in meant):
            return Fix(title)
        return Fix(f"{title}: {', '.join(meant)}", (Edit("set", path, meant),))


class NestedUnderNone(RejectingRule):
    """A mapping below a null field needs a _target_.

    Without one the field becomes a plain dictionary, and the start-up fails on the first attribute it asks for. When
    the recipe already holds specs, the mapping is merged into them and no `_target_` is needed.

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
    """

    code, slug = "CFG104", "cfg/nested-under-none"

    def check(self, run: Run) -> Iterator[Finding]:
        yield from self._specs(run)
        if not run.complete:
            yield from self._sections(run)

    def _specs(self, run: Run) -> Iterator[Finding]:
        written = run.settings.written(SPECS)
        if written is None:
            yield from self._remade(run)
            return
        if not isinstance(written.value, Object) or run.settings.target_at(SPECS) is not None:
            return
        target = specs_target(run.release)
        path = path_in(run.release, SPECS)
        fix = Fix(f"_target_: {target}", (Edit("set", f"{path}._target_", target),), safe=True)
        if not run.settings.base_known:
            yield self.finding(
                run,
                NOTE.as_warning(),
                SPECS,
                f"{path} has no _target_: right only when the recipe already holds specs",
                why="Below a null field the mapping becomes a plain dictionary and the start-up fails.",
                on_key=True,
                fix=fix,
            )
            return
        if not run.specs_plain:
            return
        if run.repaired and run.flag("dataset.enable_offline_packing"):
            yield self.finding(run, LAUNCHER_SETS, SPECS, "run_recipe.py turns this mapping into specs", on_key=True, fix=fix)
            return
        yield self.finding(
            run,
            REJECTED,
            SPECS,
            f"{path} becomes a plain dictionary: {'the file gives it' if run.complete else 'the recipe holds null there and the mapping has'} no _target_",
            why="The start-up asks a dictionary for an attribute and fails.",
            on_key=True,
            fix=fix,
        )

    def _remade(self, run: Run) -> Iterator[Finding]:
        """The recipe's nested objects arrive as plain dictionaries in a dataset that a ``_target_`` makes anew."""
        recipe, target = run.settings.recipe, run.settings.target_at("dataset")
        if recipe is None or target is None or run.complete or not run.settings.remade(("dataset",)):
            return
        names = ["offline_packing_specs"] + (list(self.NESTED) if run.release >= R06 else [])
        for name in names:
            key = f"dataset.{name}"
            if not recipe.holds(key) or run.wrote(key) or not self._asked(run, name):
                continue
            yield self.finding(
                run,
                REJECTED,
                key,
                f"the recipe's {key} arrives as a plain dictionary: the dataset is made anew by its _target_",
                why="Nested objects of the recipe lose their class on the way into a new dataset object.",
                setting=target,
                fix=Fix(f"remove dataset._target_, or give {key} with a _target_ of its own"),
                station="cfg/nested-under-none" if name == "offline_packing_specs" else "data/source-exactly-one",
            )

    NESTED = ("hf_dataset", "preprocessing", "source", "task_encoder")

    @staticmethod
    def _asked(run: Run, name: str) -> bool:
        """Whether the new dataset class has the field, so that the start-up asks it for an attribute."""
        fields = run.settings.schema.fields(run.dataset_class) or {}
        return path_in(run.release, f"dataset.{name}").partition(".")[2] in fields

    def _sections(self, run: Run) -> Iterator[Finding]:
        """Sections that are null in the recipe and get a mapping without a class."""
        if run.settings.recipe is None:
            return
        for name in ("comm_overlap", "mixed_precision"):
            written = run.settings.written(name)
            if written is None or not isinstance(written.value, Object) or run.settings.target_at(name) is not None:
                continue
            if isinstance(run.settings.recipe.values.get(name), dict):
                continue
            yield self.finding(
                run,
                REJECTED,
                name,
                f"section {name} becomes a plain dictionary: it has no _target_",
                on_key=True,
                fix=Fix("add _target_ with the section's class"),
                station="topo/world-divisible" if name == "comm_overlap" else "section:mixed_precision",
            )


def _targets(item: Item, path: str) -> Iterator[tuple[str, Item, Item]]:
    """Every mapping with a ``_target_`` text: its path, the target's item and the mapping."""
    if isinstance(item.value, dict):
        target = item.value.get("_target_")
        if target is not None and isinstance(target.value, str) and not isinstance(target.value, Interpolation):
            yield path, target, item
        for name, child in item.value.items():
            yield from _targets(child, f"{path}.{name}" if path else str(name))
    elif isinstance(item.value, list):
        for index, child in enumerate(item.value):
            yield from _targets(child, f"{path}[{index}]")


def _instantiated(run: Run) -> list[tuple[str, Item, Item, Layer]]:
    """Every mapping of the user's that names a class, below the top."""
    found: list[tuple[str, Item, Item, Layer]] | None = run.memo.get("instantiated")
    if found is None:
        found = run.memo["instantiated"] = list(_find_instantiated(run))
    return found


def _find_instantiated(run: Run) -> Iterator[tuple[str, Item, Item, Layer]]:
    for layer in reversed(run.settings.layers):
        for path, target, item in _targets(layer.root, ""):
            if path:
                yield path, target, item, layer


class TargetLenient(RejectingRule):
    """A _target_ that this release cannot make an object of.

    In an override the failure is a log line: the other keys are then set one by one on the recipe's object, unchecked,
    and below a null field a plain dictionary remains. A complete file is refused.

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `_apply_overrides`; `utils/instantiate_utils.py`
    """

    code, slug = "CFG105", "cfg/target-lenient"

    def check(self, run: Run) -> Iterator[Finding]:
        for path, target, _, layer in _instantiated(run):
            text = target.value
            if run.settings.schema.class_of(text) is not None or is_blocked(run.release, text):
                continue
            right = self._elsewhere(run, text)
            if right is None:
                continue
            onto_null = path == path_in(run.release, SPECS) and run.settings.base_known and run.specs_plain
            outcome = REJECTED_LOAD if run.complete else REJECTED if onto_null else IGNORED
            yield self.finding(
                run,
                outcome,
                path,
                f"{text} does not exist in {run.release}",
                why="The file is refused."
                if run.complete
                else "The object cannot be made: its keys are set one by one on what the recipe holds, without any check.",
                setting=Setting(f"{path}._target_", text, layer.origin, target, layer.document),
                fix=Fix(f"_target_: {right}", (Edit("set", f"{path}._target_", right),)) if right else Fix("remove the _target_"),
                station="load" if run.complete else "cfg/nested-under-none" if onto_null else "",
            )

    @staticmethod
    def _elsewhere(run: Run, target: str) -> str | None:
        """The class's path in this release ("" where it has none), when some release knows the class; else None."""
        name = target.rpartition(".")[2]
        here = run.settings.schema.path(name)
        if here is not None:
            return here
        if name == "PackedSequenceSpecs":
            return specs_target(run.release)
        known = any(schema(release.name).class_of(target) is not None for release in RELEASES)
        return "" if known else None


class TargetBlocked(RejectingRule):
    """A _target_ that the release refuses to instantiate for safety.

    0.4.2 introduced an allowlist of prefixes. 0.4.2 even refuses its own saved files, because they hold
    `signal.Signals`; a Path that was saved as an object is refused from 0.4.2 on, and its value was lost anyway.

    ## Upstream
    - 0.4 to 0.7: `utils/instantiate_utils.py`
    """

    code, slug = "CFG117", "cfg/target-blocked"
    releases = (R04, RELEASES[-1])

    def check(self, run: Run) -> Iterator[Finding]:
        for path, target, _, layer in _instantiated(run):
            name = path.rpartition(".")[2]
            by_field = run.release >= R05 and name in CALLABLE_FIELDS
            if not by_field and not is_blocked(run.release, target.value):
                continue
            yield self.finding(
                run,
                REJECTED_LOAD if run.complete else IGNORED,
                path,
                f"{run.release} does not instantiate {target.value}" + (f" for {name}" if by_field else ""),
                why="The file is refused." if run.complete else "The mapping is applied like a plain one, with a log line.",
                setting=Setting(f"{path}._target_", target.value, layer.origin, target, layer.document),
                fix=Fix("a plain value instead of the mapping, or remove the key", (Edit("delete", path),)),
                station="load",
            )


class ClassSwap(Rule):
    """Another dataset class than the recipe's is merged, not replaced.

    The recipe's keys are passed to the new class; those it does not know are dropped with a log line, and nested
    objects arrive as plain dictionaries.
    """

    code, slug = "CFG118", "cfg/class-swap"

    def check(self, run: Run) -> Iterator[Finding]:
        recipe = run.settings.recipe
        target = run.settings.target_at("dataset")
        if run.complete or recipe is None or target is None:
            return
        cls = run.settings.schema.class_of(str(target.value))
        if cls is not None and recipe.dataset_class is not None and cls != recipe.dataset_class:
            yield self.finding(
                run,
                IGNORED.as_warning(),
                "dataset",
                f"dataset class {cls} over the recipe's {recipe.dataset_class}: the recipe's keys are merged in",
                why="Keys the new class does not have are dropped, nested objects arrive as plain dictionaries.",
                setting=target,
                fix=Fix("give every nested field with its own _target_"),
            )


RULES: tuple[Rule, ...] = (
    SectionNull(),
    ListOverDict(),
    NestedUnderNone(),
    TargetLenient(),
    TargetBlocked(),
    ClassSwap(),
)
