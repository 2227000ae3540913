"""KEY=VALUE overrides: what Hydra's struct mode refuses, and what it lets through to be ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mbpack.config.document import MISSING
from mbpack.config.overrides import Override, OverrideProblem
from mbpack.config.run import Run
from mbpack.config.settings import Object, Origin, Setting, Unknown, walk
from mbpack.facts.keys import OFFLINE_SWITCH, modern_name, parts_in
from mbpack.facts.schema import NO_DEFAULT
from mbpack.facts.wrappers import is_wrapper_key
from mbpack.rules.base import IGNORED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule

FREE = ("dataset.dataset_kwargs", "env_vars")


def _state(run: Run, override: Override) -> str:
    """:func:`_existing` for an argument; one before it may have added the key."""
    for earlier in run.overrides:
        if earlier is override:
            break
        if isinstance(earlier, Override) and earlier.key == override.key and earlier.op in ("add", "force"):
            return "exists"
        if isinstance(earlier, Override) and earlier.key == override.key[:-1] and isinstance(earlier.value, (str, int, float)):
            return "leaf"
    return _existing(run, override.key)


def _existing(run: Run, key: tuple[str, ...]) -> str:
    """Whether a key is in the merged tree: exists, missing, null (its owner is null), leaf (its owner is a single value),
    free (missing in a free mapping).

    Raises:
        Unknown: the recipe that holds the owner was not named.
    """
    settings = run.settings
    if any(_written_in_file(run, key[:depth]) for depth in (len(key),)):
        return "exists"
    if len(key) == 1:
        return "exists" if key[0] in settings.schema.sections else "missing"
    owner = ".".join(key[:-1])
    if owner in FREE:
        held = _before(run, owner)
        if held is None:
            return "null"
        below = (held, _base(run, owner, None))  # the file's mapping is merged into the recipe's
        return "exists" if any(isinstance(one, Mapping) and key[-1] in one for one in below) else "free"
    if _existing(run, key[:-1]) == "missing" or _is_foreign(run, key[:-1]):
        return "missing"
    if len(key) == 2 and _is_null_section(run, owner):
        return "null"
    if _told(run) and _is_mapping_in_file(run, key[:-1]) and _base(run, owner, NO_DEFAULT) is None:
        return "missing"  # a mapping of the file over null: it has its own keys and no others
    cls = settings.class_at(_canonical(run, owner))
    if cls is None:
        if not settings.base_known and key[0] in ("model", "dataset"):
            schema = settings.schema
            known = schema.any_model_fields() if key[0] == "model" else schema.any_dataset_fields()
            if len(key) == 2:
                if key[1] not in known:
                    return "missing"
                return "exists"
        held = _before(run, owner)
        if held is None:
            return "null"
        if isinstance(held, (str, int, float)):
            return "leaf"
        if _is_mapping_in_file(run, key[:-1]):
            return "missing"  # a plain mapping of the file: it has its own keys and no others
        raise Unknown(owner, () if settings.base_known else ("recipe",), "its class is not known")
    fields = settings.schema.fields(cls)
    if fields is None:
        raise Unknown(owner, (), f"the fields of {cls} are not known")
    return "exists" if key[-1] in fields else "missing"


def _is_set(run: Run, override: Override) -> bool:
    """Whether a key that exists holds a value when an argument is applied: Hydra adds over null, not over anything else.

    Raises:
        Unknown: nobody says what the recipe holds.
    """
    value = _before(run, ".".join(override.key))
    for earlier in run.overrides:
        if earlier is override:
            break
        if isinstance(earlier, Override) and earlier.key == override.key:
            value = None if earlier.op == "delete" else earlier.value
    return value is not None


def _is_foreign(run: Run, key: tuple[str, ...]) -> bool:
    """Whether a mapping of the file has a name that the release's class does not know: there are only its own keys below."""
    cls = run.settings.class_at(".".join(key[:-1]))
    fields = run.settings.schema.fields(cls) if cls else None
    return fields is not None and key[-1] not in fields and _written_in_file(run, key)


def _told(run: Run) -> bool:
    """Whether it is known what lies below the file; recipes of the development tree do not tell all they set."""
    return run.settings.complete or (run.settings.recipe is not None and run.settings.recipe.complete)


def _is_null_section(run: Run, section: str) -> bool:
    """Whether a section that may be null certainly is."""
    field = run.settings.schema.sections.get(section)
    return field is not None and field.default is None and _told(run) and _before(run, section) is None


def _before(run: Run, path: str) -> Any:
    """What a path holds before the arguments are applied: in the files, the recipe or as the class default.

    Raises:
        Unknown: the recipe that holds it was not named, or its class is not known.
    """
    settings, parts = run.settings, path.split(".")
    for layer in settings.layers:
        item = walk(layer.root, parts) if layer.origin is Origin.FILE else None
        if item is not None and item.value is not MISSING:
            return item.value
    if not settings.base_known:
        raise Unknown(path, ("recipe",))
    found = _base(run, path, NO_DEFAULT)
    if found is NO_DEFAULT:
        raise Unknown(path, (), "its default is not known")
    return found


def _base(run: Run, path: str, unknown: Any) -> Any:
    """What the recipe or else the class holds at a path, whatever the file says; ``unknown`` where neither tells."""
    settings, parts = run.settings, path.split(".")
    canonical = _canonical(run, path)
    if settings.recipe is not None and canonical in settings.recipe.values:
        return settings.recipe.values[canonical]
    if len(parts) == 1:
        field = settings.schema.sections.get(path)
    else:
        field = (settings.schema.fields(settings.class_at(".".join(parts[:-1])) or "") or {}).get(parts[-1])
    return unknown if field is None else field.default


def _canonical(run: Run, path: str) -> str:
    specs = ".".join(parts_in(run.release, "dataset.offline_packing_specs"))
    return "dataset.offline_packing_specs" if path == specs else path


def _written_in_file(run: Run, key: tuple[str, ...]) -> bool:
    for layer in run.settings.layers:
        if layer.origin is not Origin.FILE:
            continue
        item = layer.root
        for part in key:
            child = item.value.get(part) if isinstance(item.value, dict) else None
            if child is None:
                break
            item = child
        else:
            return True
    return False


def _is_mapping_in_file(run: Run, key: tuple[str, ...]) -> bool:
    """Whether the file has a mapping at a path; a list is none, its elements are keys to Hydra."""
    return isinstance(_before(run, ".".join(key)), dict) if _written_in_file(run, key) else False


def _setting(run: Run, override: Override) -> Setting:
    """The place of an override: the item that stands for it in the override layer."""
    path = ".".join(override.key)
    for layer in run.settings.layers:
        if layer.origin is Origin.OVERRIDE:
            item = layer.root
            for part in override.key:
                child = item.value.get(part) if isinstance(item.value, dict) else None
                if child is None:
                    break
                item = child
            else:
                return Setting(path, override.value, Origin.OVERRIDE, item, layer.document)
    return Setting(path, override.value, Origin.OVERRIDE)


class CliUnknownKey(RejectingRule):
    """An override on the command line must name a key that exists.

    Hydra's struct mode refuses an unknown key. With a plus sign it is accepted and then ignored with a log line, because
    the configuration object has no such field. A plus sign on a key that holds a value is refused too; one that is null
    may be added.

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
        for entry in run.overrides:
            if isinstance(entry, OverrideProblem):
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    entry.text,
                    entry.message,
                    setting=Setting(entry.text, entry.text, Origin.OVERRIDE),
                    fix=Fix("KEY=VALUE as Hydra reads it"),
                    station="load",
                )
                continue
            path = ".".join(entry.key)
            state = _state(run, entry)
            if state == "missing" and modern_name(run.release, path) is not None:
                continue  # cfg/renamed-key says it
            if state == "missing":
                if entry.op in ("add", "force") and is_wrapper_key(path):
                    continue
                refused = entry.op in ("set", "delete")
                yield self.finding(
                    run,
                    REJECTED_LOAD if refused else IGNORED,
                    path,
                    f"{path} does not exist in {run.release}: the override is {'refused' if refused else 'ignored'}",
                    why="" if refused else "The plus sign adds the key to the tree, but the object has no such field.",
                    setting=_setting(run, entry),
                    fix=Fix("the right key", (Edit("delete", path),)),
                    station="load",
                )
            elif state == "leaf":
                if entry.op not in ("set", "delete"):
                    raise Unknown(path, (), "a single value becomes a mapping")
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{'.'.join(entry.key[:-1])} is a single value: the override below it is refused",
                    setting=_setting(run, entry),
                    fix=Fix("the right key", (Edit("delete", path),)),
                    station="load",
                )
            elif state == "exists" and entry.op == "add" and _is_set(run, entry) and not isinstance(entry.value, (dict, list)):
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"+{path} adds a key that exists already",
                    setting=_setting(run, entry),
                    fix=Fix(f"{path}=... without the plus sign, or ++{path}=..."),
                    station="load",
                )


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
        for entry in run.overrides:
            if isinstance(entry, OverrideProblem):
                continue
            path = ".".join(entry.key)
            name = modern_name(run.release, path)
            if name is None or _state(run, entry) != "missing":
                continue
            refused = entry.op in ("set", "delete")
            yield self.finding(
                run,
                REJECTED_LOAD if refused else IGNORED,
                path,
                f"{path} does not exist in {run.release}: the override is {'refused' if refused else 'ignored'}",
                why=f"This release calls it {name}.",
                setting=_setting(run, entry),
                fix=Fix(f"remove it: {name} alone is the switch", (Edit("delete", path),))
                if path == OFFLINE_SWITCH
                else Fix(f"{name}=...", (Edit("rename", path, to=name),)),
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
        for entry in run.overrides:
            if isinstance(entry, OverrideProblem) or entry.op != "set" or ".".join(entry.key[:-1]) not in FREE:
                continue
            if _state(run, entry) == "free":
                path = ".".join(entry.key)
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{path} is new in a free mapping: the override is refused without a plus sign",
                    setting=_setting(run, entry),
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
        for entry in run.overrides:
            if isinstance(entry, OverrideProblem) or entry.op != "set" or isinstance(entry.value, Object):
                continue
            if _state(run, entry) == "null":
                path = ".".join(entry.key)
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{'.'.join(entry.key[:-1])} is null: the override below it is refused",
                    setting=_setting(run, entry),
                    fix=Fix(f"+{entry.text} under run_recipe.py with enable_offline_packing=true, or a file with _target_"),
                    station="load",
                )


RULES: tuple[Rule, ...] = (CliUnknownKey(), CliRenamedKey(), DatasetKwargsMerge(), CliNestedUnderNull())
