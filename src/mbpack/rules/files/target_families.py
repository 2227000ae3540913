"""Sections that a class of another kind, or a class instead of an object, stands in."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Interpolation, Item
from mbpack.config.loading import located, target_of
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Setting, Unknown
from mbpack.facts.sections import stops_at
from mbpack.rules.base import CRASH_LATER, REJECTED, REJECTED_LOAD, Finding, Fix, RejectingRule, Rule
from mbpack.rules.files.nested_objects import OPTIONAL

#: Sections of which the start-up asks nothing but to complete themselves.
COMPLETED = ("logger", "profiling", "nvrx_straggler", "tensor_inspect")
#: And what it asks one of them for beyond that.
ALSO_ASKED = {"tensor_inspect": "enabled"}
#: Sections of which the start-up asks values only: those of the class itself will do.
VALUES = ("rng", "dist", "validation")
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
            if name not in run.settings.schema.sections:
                continue
            if run.complete and isinstance(item.value, Interpolation):
                open_one = open_one or Unknown(name, ("value",), f"section {name} is made of another value")
            if item.value.__class__ is not dict or "_target_" not in item.value:
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
        setting = Setting(f"{name}._target_", target, layer.origin, item.value["_target_"], layer.document)
        if partial is not None and partial.value is not False:
            yield from self._say(run, name, setting, f"{target} with arguments and no object of it, because of `_partial_`", "")
            return
        if call is not None and not call.value:
            if run.settings.base_known and name not in VALUES:
                yield from self._say(run, name, setting, f"{target} itself and no object of it, because of `_call_: false`", "")
            return
        what = self._other_kind(run, name, target)
        if what:
            yield from self._say(run, name, setting, what, target)

    def _say(self, run: Run, name: str, setting: Setting, what: str, target: str) -> Iterator[Finding]:
        station = stops_at(run.release, name) or OPTIONAL.get(name, "")
        cls = run.settings.schema.class_of(target) if target else None
        if name in COMPLETED and cls is not None and "finalize" in run.settings.schema.attributes(cls):
            if ALSO_ASKED.get(name, "finalize") in ("finalize", *(run.settings.schema.fields(cls) or ())):
                station = ""  # it can be completed, and nothing else is asked of it
        own = run.settings.schema.section_class(name)
        bare = cls is not None and run.settings.schema.kind(cls) == "base" and self._lacks_size(run, cls, setting)
        station = "load" if bare and run.complete else station
        yield self.finding(
            run,
            REJECTED_LOAD if station == "load" else REJECTED if station else CRASH_LATER,
            name,
            f"section {name} holds {what}",
            why="It cannot even be made without the sizes of a model."
            if station == "load"
            else "The start-up asks it for a value and fails."
            if station
            else "The start-up does not look at it; the training does.",
            setting=setting,
            fix=Fix(f"_target_: {run.settings.schema.path(own)}" if own else f"a class for {name}, called"),
            station=station,
        )

    @staticmethod
    def _lacks_size(run: Run, cls: str, setting: Setting) -> bool:
        """Whether a class of model settings, which divides by the heads when it is made, is not given any."""
        written = run.settings.written(setting.key.rpartition(".")[0])
        given = written.item.value if written is not None and written.item is not None else {}
        return "num_attention_heads" in (run.settings.schema.fields(cls) or {}) and "num_attention_heads" not in given

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
