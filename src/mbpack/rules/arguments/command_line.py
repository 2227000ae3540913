"""KEY=VALUE overrides: what Hydra's struct mode refuses, and what it lets through to be ignored."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.overrides import Override, OverrideProblem
from mbpack.config.run import Run
from mbpack.config.settings import Origin, Setting, Unknown
from mbpack.facts.keys import OFFLINE_SWITCH, modern_name
from mbpack.facts.wrappers import is_wrapper_key
from mbpack.rules.arguments.tree import Judged, Place, judged, place_of_argument
from mbpack.rules.base import IGNORED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule


class CliUnknownKey(RejectingRule):
    """An override on the command line must name a key that exists.

    Hydra's struct mode refuses an unknown key. With a plus sign it is accepted and then ignored with a log line, because
    the configuration object has no such field. A plus sign on a key that holds a value is refused too; one that is null
    may be added. `~key` needs a key that holds a value, `~key=value` that very value. Arguments are applied in order: what one
    deletes, the next cannot set without a plus sign. Keys inside `section={...}` must exist as well.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # arguments: model.contxt_parallel_size=2
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # arguments: model.context_parallel_size=1
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `parse_hydra_overrides`
    """

    code, slug = "CFG103", "cfg/cli-unknown-key"

    def check(self, run: Run) -> Iterator[Finding]:
        unknown: Unknown | None = None
        for entry in run.overrides:
            if isinstance(entry, OverrideProblem):
                yield self._unread(run, entry)
        for argument in judged(run):
            unknown = unknown or argument.unknown
            if argument.place is None:
                continue
            try:
                yield from self._judge(run, argument, argument.place)
            except Unknown as raised:
                unknown = unknown or raised
        if unknown is not None:
            raise unknown

    def _judge(self, run: Run, argument: Judged, place: Place) -> Iterator[Finding]:
        entry = argument.override
        strict, path = entry.op in ("set", "delete"), ".".join(entry.key)
        if place.kind == "exists":
            if argument.fault:
                yield self._faulty(run, entry, argument.fault)
            for key, lacking in argument.lacking:
                yield from self._lacking(run, entry, ".".join(key), lacking)
        elif place.kind == "apart":
            if strict:
                yield self._apart(run, entry)
        elif place.kind in ("leaf", "null"):
            if strict and (place.kind != "null" or entry.op == "delete"):  # else cfg/cli-under-null says it
                above = ".".join(place.owner)
                what = "null" if place.kind == "null" else "a single value"
                yield self._refuse(run, entry, path, f"{above} is {what}: the override below it is refused")
        elif place.kind != "free" or entry.op == "delete":  # else cfg/dataset-kwargs-merge says it
            yield from self._lacking(run, entry, path, place)

    def _lacking(self, run: Run, entry: Override, path: str, place: Place) -> Iterator[Finding]:
        """A key that the tree does not have."""
        strict = entry.op in ("set", "delete")
        if place.kind == "missing" and modern_name(run.release, path) is not None:
            return  # cfg/cli-renamed-key says it
        if place.kind == "beyond":
            yield self._refuse(run, entry, path, f"{path} is no element of the list: the override is refused")
        elif place.kind == "missing" and self._of_unknown_class(run, path):
            section = path.partition(".")[0]
            yield self.finding(
                run,
                IGNORED.as_warning(),
                path,
                f"no {section} class of {run.release} has {path}: the override is refused unless the class is your own",
                why="The recipe decides the class; which it is is not known here.",
                setting=place_of_argument(run, entry),
                fix=Fix("the right key"),
                station="load",
            )
        elif strict and place.kind in ("missing", "free"):
            message = f"{path} does not exist in {run.release}: the override is refused"
            yield self._refuse(run, entry, path, message, fix=self._inside(run, path))
        elif strict:
            message = f"{path} is not in the configuration any more: the override is refused"
            why = "An argument before it deletes the key, or a mapping was written over what held it."
            yield self._refuse(run, entry, path, message, why, Fix(f"+{entry.text}" if entry.op == "set" else "leave it out"))
        elif place.kind == "missing" and not is_wrapper_key(path) and not self._handed_on(run, path):
            yield self.finding(
                run,
                IGNORED,
                path,
                f"{path} does not exist in {run.release}: the override is ignored",
                why="The plus sign adds the key to the tree, but the object has no such field.",
                setting=place_of_argument(run, entry),
                fix=Fix("the right key", (Edit("delete", path),)),
                station="load",
            )

    @staticmethod
    def _inside(run: Run, path: str) -> Fix | None:
        """Where a model that holds its Megatron-Core settings in an object of their own has the field."""
        name = path.removeprefix("model.")
        return Fix(f"model.transformer.{name}: this model keeps it there") if _in_transformer(run, path) else None

    @staticmethod
    def _handed_on(run: Run, path: str) -> bool:
        """Whether the object takes a key that the tree does not have: an attribute of its class, a field inside the model's transformer."""
        section, _, name = path.partition(".")
        cls = run.settings.class_at(section)
        return _in_transformer(run, path) or (cls is not None and name in run.settings.schema.attributes(cls))

    @staticmethod
    def _of_unknown_class(run: Run, path: str) -> bool:
        section, _, field = path.partition(".")
        return bool(field) and section in ("model", "dataset") and not run.complete and run.settings.class_at(section) is None

    def _refuse(self, run: Run, entry: Override, path: str, message: str, why: str = "", fix: Fix | None = None) -> Finding:
        return self.finding(
            run,
            REJECTED_LOAD,
            path,
            message,
            why=why,
            setting=place_of_argument(run, entry),
            fix=fix or Fix("the right key", (Edit("delete", path),) if path == ".".join(entry.key) else ()),
            station="load",
        )

    def _faulty(self, run: Run, entry: Override, fault: str) -> Finding:
        path = ".".join(entry.key)
        fix = Fix("leave it out" if entry.op == "delete" else f"{path}=... without the plus sign, or ++{path}=...")
        return self._refuse(run, entry, path, fault, fix=fix)

    def _unread(self, run: Run, problem: OverrideProblem) -> Finding:
        return self.finding(
            run,
            REJECTED_LOAD,
            problem.text,
            problem.message,
            setting=Setting(problem.text, problem.text, Origin.OVERRIDE),
            fix=Fix("KEY=VALUE as Hydra reads it"),
            station="load",
        )

    def _apart(self, run: Run, entry: Override) -> Finding:
        path, gone = ".".join(entry.key), entry.op == "delete"
        plus = f"+{entry.text}"
        return self.finding(
            run,
            REJECTED_LOAD,
            path,
            f"{path} can only be added: the override {'to delete' if gone else 'of'} it is refused",
            why=f"Functions and adapters of a recipe are no part of the tree that arguments change. {plus} is taken."
            if not gone
            else "Functions and adapters of a recipe are no part of the tree that arguments change.",
            setting=place_of_argument(run, entry),
            fix=Fix("leave it out" if gone else plus),
            station="load",
        )


def _in_transformer(run: Run, path: str) -> bool:
    """Whether a key of the model is a field of the transformer that the model's class holds."""
    section, _, name = path.partition(".")
    cls = run.settings.class_at("model") if section == "model" else None
    inner = run.settings.schema.transformer_class(cls) if cls is not None else None
    return inner is not None and name in (run.settings.schema.fields(inner) or {})


class CliRenamedKey(RejectingRule):
    """An override in the words of the other generation is refused.

    In a file the same key is ignored; on the command line Hydra's struct mode refuses it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # arguments: dataset.packed_sequence_specs.packed_sequence_size=4096
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # arguments: dataset.offline_packing_specs.packed_sequence_size=4096
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `parse_hydra_overrides`
    """

    code, slug = "CFG126", "cfg/cli-renamed-key"

    def check(self, run: Run) -> Iterator[Finding]:
        for argument in judged(run):
            entry = argument.override
            for key, place in ((entry.key, argument.place), *argument.lacking):
                path = ".".join(key)
                if place is not None and place.kind == "missing" and modern_name(run.release, path) is not None:
                    yield self._renamed(run, entry, path)

    def _renamed(self, run: Run, entry: Override, path: str) -> Finding:
        refused, name = entry.op in ("set", "delete"), modern_name(run.release, path)
        if path == OFFLINE_SWITCH:
            fix = Fix(f"remove it: {name} alone is the switch", (Edit("delete", path),))
        else:
            edits = (Edit("rename", path, to=name),) if path == ".".join(entry.key) else ()
            fix = Fix(f"{name}=...", edits)
        return self.finding(
            run,
            REJECTED_LOAD if refused else IGNORED,
            path,
            f"{path} does not exist in {run.release}: the override is {'refused' if refused else 'ignored'}",
            why=f"This release calls it {name}.",
            setting=place_of_argument(run, entry),
            fix=fix,
            station="load",
        )


class DatasetKwargsMerge(RejectingRule):
    """A new key in dataset_kwargs needs a plus sign on the command line.

    In a file it is simply merged.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # arguments: dataset.dataset_kwargs.get_attention_mask_from_fusion=true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # arguments: +dataset.dataset_kwargs.get_attention_mask_from_fusion=true
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `parse_hydra_overrides`
    """

    code, slug = "CFG119", "cfg/dataset-kwargs-merge"

    def check(self, run: Run) -> Iterator[Finding]:
        for argument in judged(run):
            entry, place = argument.override, argument.place
            if entry.op == "set" and place is not None and place.kind == "free":
                path = ".".join(entry.key)
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{path} is new in a free mapping: the override is refused without a plus sign",
                    setting=place_of_argument(run, entry),
                    fix=Fix(f"+{entry.text}", (Edit("rename", path, to=f"+{path}"),), True),
                    station="load",
                )


class CliNestedUnderNull(RejectingRule):
    """An override below a null field is refused.

    With a plus sign the field becomes a plain dictionary, on which the start-up fails; under `run_recipe.py` (0.6 and
    later) that dictionary is turned into specs when offline packing is on.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=glm45_air_106b_sft_config gpus=32 launcher=script
    # arguments: dataset.offline_packing_specs.packed_sequence_size=2048
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=glm45_air_106b_sft_config gpus=32 launcher=run_recipe
    # arguments: dataset.enable_offline_packing=true +dataset.offline_packing_specs.packed_sequence_size=2048
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `parse_hydra_overrides`
    """

    code, slug = "CFG127", "cfg/cli-under-null"

    def check(self, run: Run) -> Iterator[Finding]:
        for argument in judged(run):
            entry, place = argument.override, argument.place
            if entry.op == "set" and place is not None and place.kind == "null":
                path = ".".join(entry.key)
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{'.'.join(place.owner)} is null: the override below it is refused",
                    setting=place_of_argument(run, entry),
                    fix=Fix(f"+{entry.text} under run_recipe.py with enable_offline_packing=true, or a file with _target_"),
                    station="load",
                )


RULES: tuple[Rule, ...] = (CliUnknownKey(), CliRenamedKey(), DatasetKwargsMerge(), CliNestedUnderNull())
