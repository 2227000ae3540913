"""Values that are expressions or markers: environment variables, references, ``???``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mbpack.config.document import MISSING, Interpolation, Item, walk
from mbpack.config.run import Run
from mbpack.config.settings import Setting, Unknown
from mbpack.config.written import Written, written_texts
from mbpack.facts.order import position
from mbpack.rules.base import CRASH_DATA, NOTE, REJECTED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule

if TYPE_CHECKING:
    from mbpack.config.interpolation import Resolved


class OcEnv(RejectingRule):
    """An environment variable in a numeric setting arrives as text.

    `${oc.env:X,8}` is the text "8". Use `${oc.decode:${oc.env:X,8}}` or a literal. Without a default a number never works: where
    the variable is not set, the start-up stops while it resolves the expression; where it is, there is text.

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
    programs = False
    late = True

    def check(self, run: Run) -> Iterator[Finding]:
        for written in written_texts(run):
            value = written.item.value
            kinds = written.kinds
            if not isinstance(value, Interpolation) or not kinds & {"int", "float", "bool"} or "str" in kinds:
                continue
            if "bool" not in kinds and self._always_text(run, written.path, value):
                yield self._never_works(run, written)
                continue
            if "${oc.env:" not in str(value) or value.startswith("${oc.decode:"):
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
    def _always_text(run: Run, path: str, value: Interpolation) -> bool:
        """Whether the value is text in every environment in which the expression can be resolved."""
        try:
            return run.settings.resolve(path, value).text
        except Unknown:
            return False

    def _never_works(self, run: Run, written: Written) -> Finding:
        return self.finding(
            run,
            REJECTED_LOAD,
            written.path,
            f"{written.path} takes an environment variable without a default: text where it is set, nothing where it is not",
            why="Where it is not set the expression cannot be resolved; where it is, the first calculation with the text fails.",
            setting=written.setting,
            fix=self._decoded(written.path, str(written.item.value)),
            station="load" if run.complete else UnresolvedReference.slug,
            offset=0 if run.complete else None,
        )

    @staticmethod
    def _decoded(path: str, value: str) -> Fix:
        decoded = "${oc.decode:" + value + "}"
        alone = value.startswith("${oc.env:") and value.endswith("}") and value.count("${") == 1
        return Fix(f"a literal, or {decoded}", (Edit("set", path, decoded),) if alone else (), safe=alone)


class UnresolvedReference(RejectingRule):
    """An expression that cannot be resolved.

    Every expression of the merged configuration is resolved before anything else happens, whether or not something reads the
    value: one that refers to a key nobody has, refers to itself or calls a resolver that OmegaConf does not have stops the
    start-up. OmegaConf has `oc.env`, `oc.decode`, `oc.select`, `oc.create`, `oc.deprecated`, `oc.dict.keys` and
    `oc.dict.values`, and Megatron-Bridge adds none; `now` and `hydra` exist only under Hydra's own main function. A program
    that registers its own and resolves the file itself is another matter.

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
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `process_config_with_overrides` (OmegaConf's InterpolationKeyError,
      UnsupportedInterpolationType, InterpolationResolutionError); `utils/instantiate_utils.py`, `instantiate` (complete files)
    """

    code, slug = "CFG125", "cfg/unresolved-reference"
    programs = False

    def check(self, run: Run) -> Iterator[Finding]:
        open_ones: list[tuple[str, Resolved]] = []
        for path, setting in _expressions(run):
            try:
                resolved = run.settings.resolve(path, str(setting.value))
            except Unknown:
                continue  # it refers to a value that is there, whatever it is
            if run.complete and resolved.kind == "missing-value":
                continue  # building meets the marker itself
            if resolved.kind == "unknown":
                open_ones.append((path, resolved))
            elif resolved.refused and resolved.kind != "syntax" and (run.settings.base_known or resolved.kind not in _BY_BASE):
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    path,
                    f"{path}: {resolved.reason}",
                    why="All expressions are resolved before anything is checked, whether or not something reads the value.",
                    setting=setting,
                    fix=_mended(path, str(setting.value), resolved),
                    station="load" if run.complete else self.slug,  # over a recipe, arguments are read before
                    offset=0 if run.complete else None,
                )
        for path, resolved in sorted(open_ones, key=lambda found: bool(found[1].needs)):
            raise Unknown(path, resolved.needs or ("value",), resolved.reason)


#: Kinds that a recipe which is not named may still settle.
_BY_BASE = frozenset({"missing-reference", "missing-value"})
_SHELL_DEFAULT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-([A-Za-z0-9_./+-]*)\}")


def _expressions(run: Run) -> Iterator[tuple[str, Setting]]:
    """Every expression of the layers, by its path, lowest layer first."""
    for layer in reversed(run.settings.layers):
        if "${" in layer.document.text and layer.document.language == "yaml":
            for parts, item in walk(layer.root):
                if isinstance(item.value, Interpolation):
                    path = ".".join(str(part) for part in parts)
                    yield path, Setting(path, item.value, layer.origin, item, layer.document)


def _mended(path: str, text: str, resolved: Resolved) -> Fix:
    if resolved.kind == "resolver":
        shell = _SHELL_DEFAULT.fullmatch(text)
        if shell is not None:
            meant = f"${{oc.env:{shell[1]},{shell[2] or repr('')}}}"
            return Fix(f"{meant} (text), or a literal", (Edit("set", path, meant),))
        return Fix("a literal, or ${oc.env:NAME,default} with the value in the environment")
    if resolved.kind == "missing-variable":
        return Fix("a default behind a comma, or a literal")
    return Fix("a literal, or the path of a key that exists")


class MissingToken(RejectingRule):
    """The marker ??? holds no value.

    In an override it changes nothing where the recipe has the key: its value stays; elsewhere the text itself arrives. A complete file with it is refused. An argument (`KEY=???`) replaces
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
    programs = False

    def check(self, run: Run) -> Iterator[Finding]:
        for layer in reversed(run.settings.layers):
            if "???" not in layer.document.text:
                continue
            for path, item in _missing(layer.root, ""):
                yield self.finding(
                    run,
                    REJECTED_LOAD if run.complete and item.value is MISSING else NOTE._replace(when="load"),
                    path,
                    f"{path} is `???`: " + self._effect(run, path, item),
                    setting=Setting(path, item.value, layer.origin, item, layer.document),
                    fix=Fix("a value, or remove the line"),
                    station="load",
                )

    @staticmethod
    def _effect(run: Run, path: str, item: Item) -> str:
        if item.value is not MISSING:
            return "as an argument it is a text, which takes the place of the value"
        if run.complete:
            return "the file is refused"
        if run.settings.keeps(path):
            return "the recipe's value stays"
        return "nothing lies below it, so that it stays the text ???"


def _missing(item: Item, path: str) -> Iterator[tuple[str, Item]]:
    if item.value is MISSING or item.value == "???":
        yield path, item
    elif isinstance(item.value, dict):
        for name, child in item.value.items():
            yield from _missing(child, f"{path}.{name}" if path else str(name))


RULES: tuple[Rule, ...] = (OcEnv(), UnresolvedReference(), MissingToken())
