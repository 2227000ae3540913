"""Keys that are the name of a method: an override replaces it."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Setting
from mbpack.facts.releases import R06
from mbpack.facts.sections import CONTAINER_METHODS, stops_at
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule

#: Methods that the start-up calls on sections.
_COMPLETE, _VALIDATE, _SET_UP = "finalize", "validate", "setup"
_OPTIONAL = {"comm_overlap": "comm-overlap", "mixed_precision": "section:mixed_precision"}
_EVERYTHING = "__dict__"
_WATCHED = frozenset({_COMPLETE, _VALIDATE, _SET_UP, _EVERYTHING})
#: Sections whose class defaults alone do not start a training.
_NEEDED = ("train", "model")
#: Recipes may hold Megatron-Core's own class there, which has nothing to complete.
_EITHER = ("ddp",)


class MethodKey(RejectingRule):
    """A key that is the name of a method takes the method's place.

    An override is applied by setting an attribute of that name, whether it is a setting or not. The start-up then calls what
    it finds there: a mapping, a number or null, which cannot be called. The usual cause is `validate:` for `validation:`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validate: {eval_iters: 5}
    ```
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {finalize: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {eval_iters: 5}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `_apply_overrides` (`hasattr`, `setattr`); `training/config.py`,
      `runtime_config_update` and `ConfigContainer.validate` (TypeError)
    """

    code, slug = "CFG135", "cfg/method-key"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete:
            return
        for layer in reversed(run.settings.layers):
            for name, item in layer.root.value.items() if layer.root.value.__class__ is dict else ():
                if name in CONTAINER_METHODS:
                    yield self._say(run, str(name), item, layer, "section:model@start" if name != _VALIDATE else "comm-overlap")
                elif name in run.settings.schema.sections and item.value.__class__ is dict:
                    yield from self._section(run, str(name), item, layer)

    def _section(self, run: Run, section: str, item: Item, layer: Layer) -> Iterator[Finding]:
        if _WATCHED.isdisjoint(item.value):
            return
        cls = run.settings.class_at(section)
        if cls is None:
            return
        for name, child in item.value.items():
            if name == _EVERYTHING and isinstance(child.value, dict) and section in _NEEDED:
                station = stops_at(run.release, section)
            elif (
                name in (_COMPLETE, _VALIDATE, _SET_UP)
                and name in run.settings.schema.attributes(cls)
                and not (section in _EITHER and run.settings.target_at(section) is None)
            ):
                station = self._called(run, section, name)
            else:
                continue
            if station:
                yield self._say(run, f"{section}.{name}", child, layer, station)

    @staticmethod
    def _called(run: Run, section: str, method: str) -> str:
        """The station where the start-up calls a method of a section, "" where it never does."""
        if method == _COMPLETE:
            return {"dataset": "dataset:finalize", "model": "section:model", "optimizer": "section:optimizer"}.get(
                section, _OPTIONAL.get(section, f"section:{section}")
            )
        if method == _VALIDATE:
            return "dataset:finalize" if section == "dataset" and run.release >= R06 else ""
        return _OPTIONAL.get(section, "")

    def _say(self, run: Run, path: str, item: Item, layer: Layer, station: str) -> Finding:
        method = path != _EVERYTHING and not path.endswith(f".{_EVERYTHING}")
        rename = path == _VALIDATE and "validation" in run.settings.schema.sections
        return self.finding(
            run,
            REJECTED,
            path,
            f"{path} is a method, which this value replaces" if method else f"{path} holds all values, which this replaces",
            why="The start-up calls it and stops: what is written here cannot be called." if method else "",
            setting=Setting(path, item.value, layer.origin, item, layer.document),
            on_key=True,
            caret="did you mean validation?" if rename else "",
            fix=Fix("validation", (Edit("rename", path, to="validation"),))
            if rename
            else Fix(f"remove {path}", (Edit("delete", path),)),
            station=station,
        )


RULES: tuple[Rule, ...] = (MethodKey(),)
