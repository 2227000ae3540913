"""The shape of the file: sections that are null, lists in the place of mappings."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Interpolation, Item
from mbpack.config.layering import files_as_written
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Setting
from mbpack.facts.keys import ADAPTER, SPECS, path_in
from mbpack.facts.sections import stops_at
from mbpack.rules.arguments.tree import Judged, judged, place_of_argument
from mbpack.rules.base import CRASH_DATA, REJECTED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule


def _setting(path: str, item: Item, layer: Layer) -> Setting:
    return Setting(path, item.value, layer.origin, item, layer.document)


class SectionNull(RejectingRule):
    """A section with only comments below it is null.

    Null replaces the whole section: the start-up then fails on the first attribute it asks for. `dataset: null` passes
    the validation, and no packing check runs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train:
      # micro_batch_size: 1
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # train:
    #   micro_batch_size: 1
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate` (AttributeError)
    """

    code, slug = "CFG107", "cfg/section-null"

    def check(self, run: Run) -> Iterator[Finding]:
        for name, item, layer in run.settings.sections():
            if isinstance(item.value, (dict, Interpolation)) or name not in run.settings.schema.sections:
                continue
            if isinstance(item.value, list) and not run.complete:
                continue  # refused while merging: cfg/list-over-dict
            final = run.settings.peek(name)
            if final is None or final.item is not item:
                continue
            station = stops_at(run.release, name)
            if name == "dataset":
                yield self._say(run, name, item, layer, "", "no packing check runs, and building the data fails")
            elif station is not None:
                yield self._say(run, name, item, layer, station, "the start-up fails on its first attribute")

    def _say(self, run: Run, name: str, item: Item, layer: Layer, station: str, effect: str) -> Finding:
        shown = "null" if item.value is None else f"{item.value!r} instead of a mapping"
        return self.finding(
            run,
            REJECTED if station else CRASH_DATA,
            name,
            f"section {name} is {shown}: {effect}",
            why="A key with only comments below it is null, and null replaces the recipe's whole section."
            if item.value is None
            else "",
            setting=_setting(name, item, layer),
            on_key=True,
            fix=Fix(f"delete the line `{name}:` or give it a value", (Edit("delete", name),)),
            station=station,
        )


class ListOverDict(RejectingRule):
    """A list cannot replace a mapping.

    The merge onto the recipe is refused.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train:
      - micro_batch_size: 1
      - global_batch_size: 8
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train:
      micro_batch_size: 1
      global_batch_size: 8
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `process_config_with_overrides` (ConfigTypeError)
    """

    code, slug = "CFG113", "cfg/list-over-dict"
    programs = False

    #: Sections that are null in most recipes: a list there is merged without complaint. A recipe's adapter can be called,
    #: and what can be called is left out of the merge: peft/kept says so.
    OPTIONAL = frozenset(
        {"peft", "comm_overlap", "mixed_precision", "ft", "nvrx_straggler", "straggler", "tensor_inspect", "inprocess_restart"}
    )

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete:
            return
        for argument in judged(run):
            for key in argument.clashes:
                yield self._clash(run, argument, key)
        for layer in files_as_written(run.settings.layers):
            for name, item in layer.root.value.items():
                if name not in run.settings.schema.sections:
                    continue
                if isinstance(item.value, list):
                    if name not in self.OPTIONAL or (name != ADAPTER and isinstance(self._held(run, name), dict)):
                        yield self._say(run, name, item, layer)
                elif isinstance(item.value, dict):
                    yield from self._inside(run, name, item, layer)

    def _clash(self, run: Run, argument: Judged, key: tuple[str, ...]) -> Finding:
        setting = place_of_argument(run, argument.override, key)
        what, other = ("a list", "a mapping") if isinstance(setting.value, list) else ("a mapping", "a list")
        return self.finding(
            run,
            REJECTED_LOAD,
            setting.key,
            f"{setting.key} is {what} where the configuration has {other}: the override is refused",
            setting=setting,
            fix=Fix(f"{setting.key}=null in an argument before it, or {other}"),
            station="load",
        )

    def _inside(self, run: Run, section: str, item: Item, layer: Layer) -> Iterator[Finding]:
        recipe = run.settings.recipe
        if recipe is None:
            return
        for name, child in item.value.items():
            path = f"{section}.{name}"
            if isinstance(child.value, list) and isinstance(self._held(run, path), dict):
                yield self._say(run, path, child, layer)

    @staticmethod
    def _held(run: Run, path: str) -> object:
        recipe = run.settings.recipe
        canonical = SPECS if path == path_in(run.release, SPECS) else path
        return recipe.value(canonical) if recipe is not None else None

    def _say(self, run: Run, path: str, item: Item, layer: Layer) -> Finding:
        return self.finding(
            run,
            REJECTED_LOAD,
            path,
            f"{path} is a list where the recipe has a mapping",
            setting=_setting(path, item, layer),
            on_key=True,
            fix=self._as_mapping(path, item),
            station="load",
        )

    @staticmethod
    def _as_mapping(path: str, item: Item) -> Fix:
        """Items that are mappings, or names and values in turn, say what the mapping was meant to be."""
        title, items = "key: value lines instead of list items", item.plain
        if items and all(isinstance(entry, dict) for entry in items):
            pairs = [pair for entry in items for pair in entry.items()]
        elif items and len(items) % 2 == 0:
            pairs = list(zip(items[::2], items[1::2], strict=True))
        else:
            return Fix(title)
        if not all(isinstance(name, str) and name.isidentifier() for name, _ in pairs):
            return Fix(title)
        meant = dict(pairs)
        if len(meant) < len(pairs):
            return Fix(title)
        return Fix(f"{title}: {', '.join(meant)}", (Edit("set", path, meant),))


class SectionMissing(RejectingRule):
    """A saved configuration lacks a section that has no default.

    A whole file goes through the strict loader, which makes every section from the file; these have no class to start
    from. Files that hold only a part of the sections are examples and are not judged by this rule.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, num_layers: 2, num_attention_heads: 8}
    train: {train_iters: 10, global_batch_size: 8, micro_batch_size: 1}
    optimizer: {lr: 0.0001}
    checkpoint: {}
    dataset: {_target_: megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig, dataset_root: /data, seq_length: 512}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
      num_layers: 2
      num_attention_heads: 8
      hidden_size: 512
      seq_length: 512
    train: {train_iters: 10, global_batch_size: 8, micro_batch_size: 1}
    optimizer: {lr: 0.0001}
    scheduler: {}
    logger: {}
    tokenizer: {tokenizer_type: NullTokenizer, vocab_size: 1024}
    checkpoint: {}
    dataset:
      _target_: megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig
      dataset_root: /data
      seq_length: 512
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.from_dict` (TypeError of the class)
    """

    code, slug = "CFG132", "cfg/section-missing"
    programs = False

    #: Sections without a default; `logger` and `tokenizer` hold nothing about packing and are often cut from examples.
    REQUIRED = ("train", "model", "optimizer", "scheduler", "dataset", "checkpoint")

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.complete:
            return
        there = {name for name, _, _ in run.settings.sections()}
        missing = [name for name in self.REQUIRED if name not in there]
        if len(missing) > 2:
            return
        for name in missing:
            yield self.finding(
                run,
                REJECTED_LOAD,
                name,
                f"section {name} is missing, and {run.release} has no default for it",
                fix=Fix(f"the {name} section of the saved configuration"),
            )


RULES: tuple[Rule, ...] = (SectionNull(), SectionMissing(), ListOverDict())
