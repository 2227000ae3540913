"""KEY=VALUE overrides: what Hydra's struct mode refuses, and what it lets through to be ignored."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.overrides import Override, OverrideProblem
from mbpack.config.run import Run
from mbpack.config.settings import Object, Origin, Setting, Unknown
from mbpack.facts.keys import OFFLINE_SWITCH, modern_name
from mbpack.facts.wrappers import is_wrapper_key
from mbpack.rules.argument_tree import FREE, is_set, place_of_argument, state_of
from mbpack.rules.base import IGNORED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule


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
            state = state_of(run, entry)
            if state == "missing" and modern_name(run.release, path) is not None:
                continue  # cfg/renamed-key says it
            if state == "apart" and entry.op in ("set", "delete"):
                yield self._apart(run, entry)
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
                    setting=place_of_argument(run, entry),
                    fix=Fix("the right key", (Edit("delete", path),)),
                    station="load",
                )
            elif state in ("leaf", "covered"):
                if entry.op not in ("set", "delete"):
                    if state == "covered":
                        continue
                    raise Unknown(path, (), "a single value becomes a mapping")
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{'.'.join(entry.key[:-1])} is a single value: the override below it is refused",
                    setting=place_of_argument(run, entry),
                    fix=Fix("the right key", (Edit("delete", path),)),
                    station="load",
                )
            elif state == "exists" and entry.op == "delete" and not is_set(run, entry):
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{path} is null: there is nothing to delete, and the override is refused",
                    setting=place_of_argument(run, entry),
                    fix=Fix("leave it out"),
                    station="load",
                )
            elif state == "exists" and entry.op == "add" and is_set(run, entry) and not isinstance(entry.value, (dict, list)):
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"+{path} adds a key that exists already",
                    setting=place_of_argument(run, entry),
                    fix=Fix(f"{path}=... without the plus sign, or ++{path}=..."),
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
            if name is None or state_of(run, entry) != "missing":
                continue
            refused = entry.op in ("set", "delete")
            yield self.finding(
                run,
                REJECTED_LOAD if refused else IGNORED,
                path,
                f"{path} does not exist in {run.release}: the override is {'refused' if refused else 'ignored'}",
                why=f"This release calls it {name}.",
                setting=place_of_argument(run, entry),
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
            if state_of(run, entry) == "free":
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
        for entry in run.overrides:
            if isinstance(entry, OverrideProblem) or entry.op != "set" or isinstance(entry.value, Object):
                continue
            if state_of(run, entry) == "null":
                path = ".".join(entry.key)
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{'.'.join(entry.key[:-1])} is null: the override below it is refused",
                    setting=place_of_argument(run, entry),
                    fix=Fix(f"+{entry.text} under run_recipe.py with enable_offline_packing=true, or a file with _target_"),
                    station="load",
                )


RULES: tuple[Rule, ...] = (CliUnknownKey(), CliRenamedKey(), DatasetKwargsMerge(), CliNestedUnderNull())
