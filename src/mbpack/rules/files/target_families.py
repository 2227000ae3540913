"""Sections that a class of another kind, or a class instead of an object, stands in."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Item
from mbpack.config.loading import located, target_of
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Setting, Unknown
from mbpack.facts.sections import stops_at
from mbpack.rules.base import CRASH_LATER, REJECTED, Finding, Fix, RejectingRule, Rule
from mbpack.rules.files.nested_objects import OPTIONAL

#: Sections of which the start-up asks nothing but to complete themselves.
COMPLETED = ("logger", "profiling", "nvrx_straggler", "tensor_inspect")
#: Packages in which no configuration of Megatron-Bridge lies.
FOREIGN = frozenset({"torch", "numpy", "transformers", "signal", "os", "sys", "datetime", "collections", "functools", "builtins"})


class TargetFamily(RejectingRule):
    """A section holds an object of its own kind.

    A class of another section can be made and has none of the values that the start-up asks for; neither has a class that
    `_call_: false` leaves uncalled.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    rng: {_target_: megatron.bridge.training.config.LoggerConfig}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    rng: {_target_: megatron.bridge.training.config.RNGConfig}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate` (AttributeError)
    """

    code, slug = "CFG134", "cfg/target-family"

    def check(self, run: Run) -> Iterator[Finding]:
        open_one: Unknown | None = None
        for name, item, layer in run.settings.sections():
            if name not in run.settings.schema.sections or item.value.__class__ is not dict or "_target_" not in item.value:
                continue
            final = run.settings.peek(name)
            if final is None or final.item is not item:
                continue
            try:
                yield from self._section(run, name, item, layer)
            except Unknown as unknown:
                open_one = open_one or unknown
        if open_one is not None:
            raise open_one

    def _section(self, run: Run, name: str, item: Item, layer: Layer) -> Iterator[Finding]:
        settings = run.settings
        if settings.loading.why_unmade(name, item) is not None:
            return
        target = target_of(settings, name, item)
        if not isinstance(target, str):
            return
        call, partial = item.value.get("_call_"), item.value.get("_partial_")
        if partial is not None and partial.value is not False:
            raise Unknown(f"{name}._partial_", ("value",), "what becomes of a partial object is not known")
        setting = Setting(f"{name}._target_", target, layer.origin, item.value["_target_"], layer.document)
        if call is not None and not call.value:
            yield from self._say(run, name, setting, f"{target} itself and no object of it, because of `_call_: false`", target)
            return
        what = self._other_kind(run, name, target)
        if what:
            yield from self._say(run, name, setting, what, target)

    def _say(self, run: Run, name: str, setting: Setting, what: str, target: str) -> Iterator[Finding]:
        station = stops_at(run.release, name) or OPTIONAL.get(name, "")
        cls = run.settings.schema.class_of(target)
        called = setting.item is not None and "itself" not in what
        if name in COMPLETED and called and cls is not None and "finalize" in run.settings.schema.attributes(cls):
            station = ""  # it can be completed, and nothing else is asked of it
        own = run.settings.schema.section_class(name)
        yield self.finding(
            run,
            REJECTED if station else CRASH_LATER,
            name,
            f"section {name} holds {what}",
            why="The start-up asks it for a value and fails."
            if station
            else "The start-up does not look at it; the training does.",
            setting=setting,
            fix=Fix(f"_target_: {run.settings.schema.path(own)}" if own else f"a class for {name}, called"),
            station=station,
        )

    @staticmethod
    def _other_kind(run: Run, name: str, target: str) -> str:
        """What stands in the section where it is of another kind, "" where it is of the right one.

        Raises:
            Unknown: what the path leads to is not known.
        """
        schema = run.settings.schema
        cls = schema.class_of(target)
        if cls is None:
            if target.partition(".")[0] in FOREIGN:
                return f"{target}, which is no configuration"
            found = located(run.settings, target)
            if name == "mixed_precision" and found is not None and found.kind == "function":
                return ""
            if (
                found is not None
                and found.kind in ("class", "enum")
                and target.startswith(("megatron.core.", "megatron.bridge."))
            ):
                return f"{target}, which is no configuration"
            raise Unknown(f"{name}._target_", ("value",), f"what {target} gives is not known")
        own, kind = schema.section_class(name), schema.kind(cls)
        if own is not None:
            same = cls.rpartition(".")[2] == own.rpartition(".")[2]
            lacks = kind == "base" and "finalize" in schema.attributes(own) and "finalize" not in schema.attributes(cls)
            return "" if same and not (lacks and name not in ("optimizer", "ddp")) else f"an object of {cls}, not of {own}"
        if name in ("model", "dataset", "peft") and kind not in (name, "base", "nested"):
            return f"an object of {cls}, which is no {name}"
        return ""


RULES: tuple[Rule, ...] = (TargetFamily(),)
