"""Keys that a release does not have: upstream ignores most of them without a word, which is why they matter most."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from mbpack.config.run import Run
from mbpack.config.settings import Unknown, walk
from mbpack.config.shown_release import BEST_FIT
from mbpack.config.unknown_keys import UnknownKey, unknown_keys
from mbpack.config.wrapper import dataset_source, is_wrapped
from mbpack.facts.keys import OFFLINE_SWITCH, modern_name, rename_of
from mbpack.facts.knowledge import lists_complete, newer, reach
from mbpack.facts.releases import R05, R07
from mbpack.facts.schema import classes_with, releases_with
from mbpack.facts.sections import CONTAINER_METHODS
from mbpack.facts.wrappers import is_wrapper_key
from mbpack.rules.base import (
    IGNORED,
    IGNORED_ATTRIBUTE,
    NOTE,
    REJECTED_LOAD,
    Edit,
    Finding,
    Fix,
    Outcome,
    RejectingRule,
    Rule,
    words,
)
from mbpack.rules.files import programs
from mbpack.rules.files.misplaced import Meant, misplaced


def _outcome(run: Run) -> Outcome:
    return REJECTED_LOAD if run.complete else IGNORED_ATTRIBUTE if run.settings.python else IGNORED


def _effect(run: Run) -> str:
    if run.complete:
        return "the file is refused"
    return "Python sets it all the same, and nothing reads it" if run.settings.python else "it is ignored"


class RenamedKey(RejectingRule):
    """A key of the other generation does nothing in this release.

    0.6 renamed the packing keys. In an override the old (or, before 0.6, the new) name is ignored with a log line and
    the recipe's own packing stays in force; in a complete file it is refused.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    dataset:
      packed_sequence_specs: {packed_sequence_size: 4096}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama32_1b_sft_config gpus=8 launcher=script
    dataset:
      enable_offline_packing: true
      offline_packing_specs: {packed_sequence_size: 4096}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `_apply_overrides` (overrides)
    - 0.3 to 0.7: `utils/instantiate_utils.py` (complete files)
    """

    code, slug = "CFG101", "cfg/renamed-key"

    def check(self, run: Run) -> Iterator[Finding]:
        for key in unknown_keys(run.settings):
            rename = rename_of(run.release, key.path)
            if rename is None or _in_a_wrappers_dataset(run, key):
                continue
            name = modern_name(run.release, key.path) or ""
            note = f" ({rename.note})" if rename.note and run.release >= rename.since else ""
            fix = Fix(f"{name}{note}; `mbpack migrate` does the whole file", (Edit("rename", key.path, to=name),))
            if key.path == OFFLINE_SWITCH:  # a switch is no specs
                fix = Fix(f"remove it: in {run.release} {name} alone is the switch", (Edit("delete", key.path),))
            effect = self._effect(run, key.path)
            if any(walk(layer.root, tuple(name.split("."))) is not None for layer in run.settings.layers):
                fix, effect = Fix(f"remove it: {name} is set too", (Edit("delete", key.path),)), f", {name} counts"
            done = _effect(run) if run.complete or run.settings.python else "it is ignored" + effect
            yield self.finding(
                run,
                _outcome(run),
                key.path,
                f"{key.path} does not exist in {run.release}: {done}",
                why=f"Renamed in {rename.since}: this release calls it {name}{note}; there is no alias upstream.",
                setting=key.setting,
                on_key=True,
                caret=f"here: {name}",
                fix=fix,
                station="load",
                offset=key.offset,
            )

    @staticmethod
    def _effect(run: Run, path: str) -> str:
        if "pack" not in path:
            return ""
        if run.settings.recipe is not None:
            return " and the recipe's own packing stays in force"
        return " and the run is packed as its recipe says, or not at all"


class YamlUnknownKey(RejectingRule):
    """A key that the release's configuration does not have.

    In an override it is dropped with a log line: a misspelled setting, or one that stands in the wrong section or in none,
    silently does nothing. A complete file is refused. What nothing is known of at the top of a file may belong to another
    program: it is named, and never removed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batchsize: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `_apply_overrides`; `utils/instantiate_utils.py`
    """

    code, slug = "CFG102", "cfg/yaml-unknown-key"

    def check(self, run: Run) -> Iterator[Finding]:
        for key in unknown_keys(run.settings):
            if rename_of(run.release, key.path) is not None:
                continue
            if run.settings.python and programs.told(run, key):
                continue
            if not run.complete and (not key.is_text or is_wrapper_key(key.path) or self._told_elsewhere(run, key)):
                continue
            found = misplaced(run, key) or self._mistyped(run, key)
            if (not found.surely and _is_wrappers(run, key)) or _in_a_wrappers_dataset(run, key):
                continue
            if found.surely or found.why or "." not in key.path or lists_complete(run.settings.version):
                yield self._say(run, key, found)
            else:
                yield self._not_known(run, key)
                if run.complete and newer(run.settings.version):
                    raise Unknown(key.path, (), f"whether {run.patch} has {key.path} is not known to mbpack")

    def is_mistake(self, run: Run, key: UnknownKey) -> bool:
        """Whether a key can only be a mistake: a name close by or in another place is meant."""
        return (misplaced(run, key) or self._mistyped(run, key)).surely

    def _not_known(self, run: Run, key: UnknownKey) -> Finding:
        """A name on none of the lists, where the lists may end before the release does: nothing is certain, nothing to mend."""
        version = run.settings.version
        sure = run.complete and not newer(version)
        return self.finding(
            run,
            REJECTED_LOAD if sure else IGNORED.as_warning(),
            key.path,
            f"{key.path} is not known to mbpack ({reach(version)})",
            why=f"If {version.text} has no such setting, "
            + ("the file is refused." if run.complete else "it is dropped with a log line.")
            + " `mbpack learn --from PATH` reads the fields of an installed package or a checkout.",
            setting=key.setting,
            on_key=True,
            station="load",
            offset=key.offset,
        )

    def _say(self, run: Run, key: UnknownKey, found: Meant) -> Finding:
        outcome = _outcome(run)
        what = key.path
        if self._between_releases(run, key):
            return self._of_another_patch(run, key, found)
        if "." not in key.path and not run.complete:
            what = f"section {key.path}" if self._is_mapping(key) else f"{key.path} at the top"
            outcome = outcome if found.surely else outcome.as_warning()
        done = _effect(run)
        message, why = f"{what} does not exist in {run.release}: {done}", found.why
        if self._of_unknown_class(run, key) and (run.context.own_recipe or not found.surely):
            section = key.path.partition(".")[0]
            outcome = outcome.as_warning()
            whose = (
                f"no {section} class of {run.release} has"
                if key.owner is None
                else f"no recipe that fits has a {section} class with"
            )
            message = f"{whose} {key.path}: it is ignored unless the class is your own"
            why = why or "The recipe decides the class; which it is is not known here."
        elif not found.surely and self._may_be_of_a_fork(run, key):
            outcome = outcome.as_warning()
            why = why or "Nothing names a release or a recipe: a fork may have it."
        return self.finding(
            run,
            outcome,
            key.path,
            message,
            why=why,
            setting=key.setting,
            on_key=True,
            caret=found.caret,
            fix=found.fix,
            station="load",
            offset=key.offset,
        )

    @staticmethod
    def _between_releases(run: Run, key: UnknownKey) -> bool:
        """Whether a saved file fits no release whole: the one that fits best lacks a field that others have in that class."""
        guessed = run.complete and run.context.sources.get("bridge") == "file" and run.context.marker == BEST_FIT
        owner, _, name = key.path.rpartition(".")
        return guessed and "." not in owner and bool(owner) and bool(releases_with(owner, name))

    def _of_another_patch(self, run: Run, key: UnknownKey, found: Meant) -> Finding:
        return self.finding(
            run,
            NOTE,
            key.path,
            f"{key.path} is no field of {run.release}, which fits this file best; {found.why[:1].lower()}{found.why[1:-1]}",
            why="What lies between two releases has fields of both: --bridge names the one that the file is for.",
            setting=key.setting,
            on_key=True,
        )

    @staticmethod
    def _may_be_of_a_fork(run: Run, key: UnknownKey) -> bool:
        """Whether nobody says which release or recipe a file is for, so that its section may have more fields."""
        told = run.context.sources.get("bridge") in ("default", "file") and run.context.recipe is None
        return told and "." in key.path and not run.complete and not run.settings.python

    def _mistyped(self, run: Run, key: UnknownKey) -> Meant:
        """A name close by, or words about where the key does exist; what nothing is known of may be somebody else's."""
        near = self._near(key)
        hint = self._elsewhere(run, key)
        at_top = "." not in key.path
        if near and not hint and not (at_top and not self._can_be(run, near, key)):
            fix = Fix(near, (Edit("rename", key.path, to=near),))
            return Meant(fix, caret=f"did you mean {near.rpartition('.')[2]}?", surely=True)
        if at_top and not run.complete:
            return Meant(Fix("remove it, unless another program reads it"))
        if not run.complete and any(
            is_wrapper_key(other.path) and other.path != "defaults" for other in unknown_keys(run.settings)
        ):
            return Meant(Fix("remove it, unless the wrapper reads it"), hint)
        return Meant(Fix(f"remove {key.path}", (Edit("delete", key.path),)), hint)

    @staticmethod
    def _of_unknown_class(run: Run, key: UnknownKey) -> bool:
        """Whether nobody knows the class that would have the key, so that it may be one of the user's own."""
        section, _, name = key.path.partition(".")
        if section not in ("model", "dataset") or not name or run.complete:
            return False
        return key.owner is None or (run.context.recipe is None and "." not in name and run.settings.target_at(section) is None)

    @staticmethod
    def _can_be(run: Run, section: str, key: UnknownKey) -> bool:
        """Whether a key at the top can be a mistyped section: a mapping, and that section is not written as well."""
        written = any(walk(layer.root, (section,)) is not None for layer in run.settings.layers)
        return YamlUnknownKey._is_mapping(key) and not written

    @staticmethod
    def _is_mapping(key: UnknownKey) -> bool:
        return key.setting.item is not None and isinstance(key.setting.item.value, dict)

    @staticmethod
    def _told_elsewhere(run: Run, key: UnknownKey) -> bool:
        """In-batch keys on a text dataset, a native buffer before 0.7 and the keys of online packing have rules of their own."""
        name = key.path.rpartition(".")[2]
        if key.path in CONTAINER_METHODS or name == "__dict__":
            return True
        if key.path == "dataset.enable_global_batch_packing":
            return run.release >= R07
        if key.path == "model.dynamic_context_parallel":
            return True
        if key.owner in ("FinetuningDatasetConfig", "GPTSFTDatasetConfig", "HFDatasetConfig"):
            return name in ("pack_sequences_in_batch", "enable_in_batch_packing")
        energon = key.owner in ("EnergonProvider", "QwenVLEnergonProvider")
        return energon and name == "packing_buffer_size" and run.release <= R05

    @staticmethod
    def _near(key: UnknownKey) -> str:
        owner, _, name = key.path.rpartition(".")
        close = _nearest(name, tuple(key.known))
        return f"{owner}.{close}" if owner and close else close

    @staticmethod
    def _elsewhere(run: Run, key: UnknownKey) -> str:
        """Where the key does exist: in other releases, on other classes, or at another level."""
        section, _, rest = key.path.partition(".")
        if not rest:
            return ""
        if "." in rest:
            return ""
        releases = releases_with(section, rest)
        if run.release.name in releases:
            owners = classes_with(run.release.name, section, rest)
            if owners and key.owner:
                return f"{key.owner} has no such field; {words(owners[:3], 'and')} {'have' if len(owners) > 1 else 'has'} it."
        elif releases:
            return f"It exists in {words(releases)}."
        return ""


_UNKNOWN = YamlUnknownKey()


def _is_wrappers(run: Run, key: UnknownKey) -> bool:
    """Whether a key at the top stands in a file of a wrapper, which may read it."""
    wrapped = any(is_wrapped(layer.root) for layer in run.settings.layers)
    return wrapped and "." not in key.path and key.is_text and not run.complete


def _in_a_wrappers_dataset(run: Run, key: UnknownKey) -> bool:
    """Whether a key stands in a dataset that the wrapper makes itself, by whatever names it reads."""
    return key.path.startswith("dataset.") and any(dataset_source(layer.root) for layer in run.settings.layers)


@lru_cache(maxsize=1024)
def _nearest(name: str, known: tuple[str, ...]) -> str:
    """The known name that a misspelled one most likely means, "" where none is close. Kept: fixing asks again and again."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, n=1, cutoff=0.75)), "")


class WrapperKey(Rule):
    """Keys of a program that wraps Megatron-Bridge.

    Bridge ignores them with a log line; the wrapper may read them. They are reported once, so that they do not drown
    real findings. A wrapper that copies only selected keys may drop packing settings.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    slurm: {nodes: 1}
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```
    """

    code, slug = "CFG121", "cfg/wrapper-key"
    programs = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete:
            return
        keys = [
            key
            for key in unknown_keys(run.settings)
            if _in_a_wrappers_dataset(run, key)
            or (
                rename_of(run.release, key.path) is None
                and (is_wrapper_key(key.path) or (_is_wrappers(run, key) and not _UNKNOWN.is_mistake(run, key)))
            )
        ]
        if keys:
            below = [layer.document.path for layer in reversed(run.settings.layers) if layer.document.inherited]
            read = f" {words(below)} {'are' if len(below) > 1 else 'is'} read here as layers below." if below else ""
            yield self.finding(
                run,
                IGNORED.as_warning(),
                keys[0].path,
                f"{words(dict.fromkeys(key.path for key in keys))}: keys of a wrapper program, Megatron-Bridge ignores them",
                why=f"Whether the wrapper passes every packing key on is not visible here.{read}",
                setting=keys[0].setting,
                on_key=True,
                fix=Fix("nothing, if the wrapper reads them"),
            )


class NonTextKey(RejectingRule):
    """A key that YAML reads as a number, a boolean or null is no name.

    An override is applied by asking each object for an attribute of that name, and an attribute name must be text: the
    launch ends with a TypeError. The usual causes are a missing dash in a list and a bare `yes`, `on` or number.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {2: 4096}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    env_vars: {"2": "4096"}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `_apply_overrides`
    """

    code, slug = "CFG129", "cfg/non-text-key"
    programs = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete:
            return
        for key in unknown_keys(run.settings):
            if not key.is_text:
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    key.path,
                    f"the key {key.path.rpartition('.')[2]} is not text: the override cannot be applied",
                    setting=key.setting,
                    on_key=True,
                    fix=Fix("a name; if it is one, in quotes"),
                    station="load",
                    offset=key.offset,
                )


RULES: tuple[Rule, ...] = (RenamedKey(), _UNKNOWN, NonTextKey(), WrapperKey())
