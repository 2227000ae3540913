"""Values that are expressions or markers: environment variables, references, ``???``."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import MISSING, Interpolation, Item, walk
from mbpack.config.run import Run
from mbpack.config.settings import Setting, Unknown
from mbpack.config.written import written_texts
from mbpack.facts.order import position
from mbpack.rules.base import CRASH_DATA, NOTE, REJECTED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule


class OcEnv(RejectingRule):
    """An environment variable in a numeric setting arrives as text.

    `${oc.env:X,8}` is the text "8". Use `${oc.decode:${oc.env:X,8}}` or a literal.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: "${oc.env:GLOBAL_BATCH,8}"}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: "${oc.decode:${oc.env:GLOBAL_BATCH,8}}"}
    ```
    """

    code, slug = "CFG114", "cfg/oc-env"
    late = True

    def check(self, run: Run) -> Iterator[Finding]:
        for written in written_texts(run):
            value = written.item.value
            if not isinstance(value, Interpolation) or "${oc.env:" not in str(value) or value.startswith("${oc.decode:"):
                continue
            kinds = written.kinds
            if not kinds & {"int", "float", "bool"} or "str" in kinds:
                continue
            stations = [station for setting, station in run.stopped if station and setting.item is written.item]
            station = min(stations, key=lambda name: position(run.release, name), default="")
            outcome = REJECTED if station else CRASH_DATA
            yield self.finding(
                run,
                outcome.as_warning(),
                written.path,
                f"{written.path} takes an environment variable, which is always text",
                setting=written.setting,
                fix=self._decoded(written.path, str(value)),
                station=station,
            )

    @staticmethod
    def _decoded(path: str, value: str) -> Fix:
        decoded = "${oc.decode:" + value + "}"
        alone = value.startswith("${oc.env:") and value.endswith("}") and value.count("${") == 1
        return Fix(f"a literal, or {decoded}", (Edit("set", path, decoded),) if alone else (), safe=alone)


class UnresolvedReference(RejectingRule):
    """An expression that refers to a key nobody has.

    The merged configuration cannot be resolved, and the start-up stops while it reads the file.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: "${data.seq_length}"}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: "${dataset.seq_length}"}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `process_config_with_overrides` (InterpolationKeyError)
    """

    code, slug = "CFG125", "cfg/unresolved-reference"

    def check(self, run: Run) -> Iterator[Finding]:
        for layer in reversed(run.settings.layers):
            if "${" not in layer.document.text:
                continue
            for parts, item in walk(layer.root):
                if not isinstance(item.value, Interpolation):
                    continue
                path = ".".join(str(part) for part in parts)
                try:
                    resolved = run.settings.resolve(path, item.value)
                except Unknown:
                    continue
                if resolved.kind in ("missing-reference", "missing-value") and run.settings.base_known:
                    yield self.finding(
                        run,
                        REJECTED_LOAD,
                        path,
                        f"{path}: {resolved.reason}",
                        setting=Setting(path, item.value, layer.origin, item, layer.document),
                        fix=Fix("a literal, or the path of a key that exists"),
                        station="load" if run.complete else self.slug,  # over a recipe, arguments are read before
                    )


class MissingToken(RejectingRule):
    """The marker ??? holds no value.

    In an override it changes nothing: the recipe's value stays. A complete file with it is refused. An argument (`KEY=???`) replaces
    the value by the text itself.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train:
      global_batch_size: ???
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```
    """

    code, slug = "CFG108", "cfg/missing-token"

    def check(self, run: Run) -> Iterator[Finding]:
        for layer in reversed(run.settings.layers):
            if "???" not in layer.document.text:
                continue
            for path, item in _missing(layer.root, ""):
                yield self.finding(
                    run,
                    REJECTED_LOAD if run.complete and item.value is MISSING else NOTE._replace(when="load"),
                    path,
                    f"{path} is `???`: " + self._effect(run, item),
                    setting=Setting(path, item.value, layer.origin, item, layer.document),
                    fix=Fix("a value, or remove the line"),
                    station="load",
                )

    @staticmethod
    def _effect(run: Run, item: Item) -> str:
        if item.value is not MISSING:
            return "as an argument it is a text, which takes the place of the value"
        return "the file is refused" if run.complete else "the recipe's value stays"


def _missing(item: Item, path: str) -> Iterator[tuple[str, Item]]:
    if item.value is MISSING or item.value == "???":
        yield path, item
    elif isinstance(item.value, dict):
        for name, child in item.value.items():
            yield from _missing(child, f"{path}.{name}" if path else str(name))


RULES: tuple[Rule, ...] = (OcEnv(), UnresolvedReference(), MissingToken())
