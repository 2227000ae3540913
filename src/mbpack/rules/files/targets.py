"""Classes that a file names: which a release cannot make, refuses to make, or merges instead of replacing."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Item
from mbpack.config.loading import Unmade
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Setting
from mbpack.config.shared import once
from mbpack.facts.keys import specs_target
from mbpack.facts.names import names
from mbpack.facts.releases import R04, R05, RELEASES
from mbpack.facts.schema import schema
from mbpack.facts.targets import CALLABLE_FIELDS, is_blocked
from mbpack.rules.base import IGNORED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule


def _targets(item: Item, path: str) -> Iterator[tuple[str, Item, Item]]:
    """Every mapping with a ``_target_`` text: its path, the target's item and the mapping."""
    children = item.value
    if children.__class__ is dict:
        target = children.get("_target_")
        if target is not None:
            yield path, target, item
        for name, child in children.items():
            if child.value.__class__ is dict or child.value.__class__ is list:
                yield from _targets(child, f"{path}.{name}" if path else str(name))
    elif children.__class__ is list:
        for index, child in enumerate(children):
            yield from _targets(child, f"{path}[{index}]")


@once
def _instantiated(run: Run) -> list[tuple[str, Item, Item, Layer]]:
    """Every mapping of the user's that names a class, below the top."""
    return list(_find_instantiated(run))


def _find_instantiated(run: Run) -> Iterator[tuple[str, Item, Item, Layer]]:
    for layer in reversed(run.settings.layers):
        for path, target, item in _targets(layer.root, ""):
            if path:  # the top is the configuration itself
                yield path, target, item, layer


class TargetLenient(RejectingRule):
    """A mapping that names a class and does not become an object of it.

    The path leads to nothing in this release, or to something that cannot be called; an argument without a default is missing;
    the class is abstract; `_call_: false` stands beside other keys. A complete file is refused. In an override the failure is a
    log line: the other keys are then set one by one on the recipe's object, unchecked, and below a null field a plain dictionary
    remains.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      offline_packing_specs:
        _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs
        packed_sequence_size: 4096
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      offline_packing_specs:
        _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs
        packed_sequence_size: 4096
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `_apply_overrides`; `utils/instantiate_utils.py`
    """

    code, slug = "CFG105", "cfg/target-lenient"
    programs = False

    def check(self, run: Run) -> Iterator[Finding]:
        for path, target, item, layer in _instantiated(run):
            if run.complete and path.partition(".")[0].partition("[")[0] not in run.settings.schema.sections:
                continue  # refused before anything is built
            unmade = run.settings.loading.why_unmade(path, item)
            right = None
            if unmade is None and isinstance(target.value, str) and not names(run.release.name).known:
                right = self._elsewhere(run, target.value)
                unmade = Unmade("nowhere", f"{target.value} does not exist in {run.release}") if right is not None else None
            if unmade is None or unmade.kind == "blocked":
                continue
            yield self.finding(
                run,
                REJECTED_LOAD if run.complete else IGNORED,
                path,
                unmade.what if path in unmade.what else f"{path}: {unmade.what}",
                why="The file is refused."
                if run.complete
                else "The object cannot be made: its keys are set one by one on what the recipe holds, without any check.",
                setting=Setting(f"{path}._target_", target.value, layer.origin, target, layer.document),
                fix=self._mended(run, path, target.value, unmade, right),
                station="load" if run.complete else "",
                offset=item.span.end if unmade.late else item.span.start,
            )

    def _mended(self, run: Run, path: str, target: object, unmade: Unmade, right: str | None) -> Fix:
        if unmade.kind == "nowhere" and isinstance(target, str):
            right = self._elsewhere(run, target) if right is None else right
            if right:
                return Fix(f"_target_: {right}", (Edit("set", f"{path}._target_", right),))
            return Fix("the import path of a class that this release has" if right is None else "remove the _target_")
        if unmade.kind == "required":
            keys = ", ".join(f"{path}.{name}" for name in unmade.missing)
            return Fix(
                f"give {keys}" if run.complete else f"give {keys}, or remove the _target_ where the recipe holds the object"
            )
        if unmade.kind == "no-call":
            return Fix("_call_: false", (Edit("set", f"{path}._call_", False),))
        if unmade.kind == "keys":
            return Fix("remove _call_: false", (Edit("delete", f"{path}._call_"),))
        return Fix("the import path of a class that can be made")

    @staticmethod
    def _elsewhere(run: Run, target: str) -> str | None:
        """The class's path in this release ("" where it has none), when some release knows the class; else None."""
        if run.settings.schema.class_of(target) is not None or is_blocked(run.release, target):
            return None
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

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      offline_packing_specs:
        packed_train_data_path: {_target_: pathlib.PosixPath, _args_: [packs/training.parquet]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_train_data_path: packs/training.parquet}}
    ```

    ## Upstream
    - 0.4 to 0.7: `utils/instantiate_utils.py`
    """

    code, slug = "CFG117", "cfg/target-blocked"
    programs = False
    releases = (R04, RELEASES[-1])

    def check(self, run: Run) -> Iterator[Finding]:
        for path, target, _, layer in _instantiated(run):
            if not isinstance(target.value, str):
                continue
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

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      _target_: megatron.bridge.training.config.MockGPTDatasetConfig
      random_seed: 1234
      sequence_length: 4096
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    dataset: {random_seed: 1234}
    ```
    """

    code, slug = "CFG118", "cfg/class-swap"
    programs = False

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


RULES: tuple[Rule, ...] = (TargetLenient(), TargetBlocked(), ClassSwap())
