"""How rows become conversations or prompts: what the start-up refuses in dataset.preprocessing (0.6 and later)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, is_blank, set_to, words

KEY = "dataset.preprocessing"
CHAT, PROMPT = "ChatSFTPreprocessingConfig", "PromptCompletionSFTPreprocessingConfig"
#: Tokens that carry loss, by class.
LOSS_MODES = {CHAT: ("assistant", "last_turn", "full"), PROMPT: ("completion", "full")}
SIDES = ("left", "right")
COLUMNS = ("prompt_column", "completion_column")
SWITCHES = ("strip_whitespace", "add_bos", "add_sep", "add_eos")


class Preprocessing(RejectingRule):
    """Preprocessing names its loss mode, its columns and a template with one placeholder.

    `loss_mode` says which tokens carry loss: `assistant`, `last_turn` or `full` for conversations, `completion` or
    `full` for prompts. A prompt template holds `{prompt}` and nothing else in braces. Where a file names another class
    than the recipe's, the recipe's `loss_mode` is handed to it all the same: write one that fits.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      preprocessing:
        _target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      preprocessing:
        _target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig
        loss_mode: assistant
    ```

    ## Upstream
    - 0.6, 0.7: `data/sft_processing.py`, `ChatSFTPreprocessingConfig.validate`,
      `PromptCompletionSFTPreprocessingConfig.validate`
    """

    code, slug = "DAT141", "data/preprocessing"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        kind = run.dataset
        if kind not in (DatasetKind.GPT_SFT, DatasetKind.DIRECT_HF) or not isinstance(run.value(KEY), Object):
            return
        cls = run.settings.class_at(KEY)
        station = self.slug if kind is DatasetKind.GPT_SFT else f"{self.slug}@direct"
        if cls not in LOSS_MODES:
            return  # cfg/nested-under-none, or a class of one's own
        for field, message, fix in self._wrong(run, cls):
            key = f"{KEY}.{field}"
            yield self.finding(
                run,
                REJECTED,
                key,
                f"{key} {message}" + ("" if run.wrote(key) else " (the recipe's)"),
                setting=None if run.wrote(key) else run.settings.target_at(KEY),
                related=(f"{KEY}._target_",) if run.wrote(key) else (),
                fix=Fix(f"{field}: {fix}", set_to(run, (key, fix)) if fix in (*SIDES, *LOSS_MODES[cls]) else ()),
                station=station,
            )

    def _wrong(self, run: Run, cls: str) -> Iterator[tuple[str, str, str]]:
        modes = LOSS_MODES[cls]
        mode = self._value(run, "loss_mode")
        if cls == PROMPT:
            yield from self._prompt(run)
        if mode not in modes:
            yield "loss_mode", f"must be {words(modes, 'or')}, found {mode!r}", modes[0]
        if cls == PROMPT:
            for name in SWITCHES:
                if not isinstance(self._value(run, name), bool):
                    yield name, f"must be true or false, found {self._value(run, name)!r}", "true or false"
            side = self._value(run, "truncation_method")
            if side not in SIDES:
                yield "truncation_method", f"must be {words(SIDES, 'or')}, found {side!r}", "right"

    def _prompt(self, run: Run) -> Iterator[tuple[str, str, str]]:
        columns = [self._value(run, name) for name in COLUMNS]
        for name, column in zip(COLUMNS, columns, strict=True):
            if is_blank(column):
                yield name, f"must name a column, found {column!r}", "the column of the data"
        if columns[0] == columns[1]:
            yield COLUMNS[1], f"and prompt_column are both {columns[0]!r}", "another column than the prompt's"
        template = self._value(run, "prompt_template")
        if not isinstance(template, str) or not _only_prompt(template):
            yield "prompt_template", f"must hold {{prompt}} and no other placeholder, found {template!r}", "'{prompt}'"
        separator = self._value(run, "separator")
        if not isinstance(separator, str):
            yield "separator", f"must be text, found {separator!r}", "text, in quotes"

    @staticmethod
    def _value(run: Run, field: str) -> Any:
        """A field's value; another class than the recipe's takes over what it does not write itself."""
        key, recipe = f"{KEY}.{field}", run.settings.recipe
        if recipe is not None and not run.complete and not run.wrote(key) and recipe.holds(KEY):
            held = run.settings.schema.class_of(recipe.values[KEY]["_target_"])
            if held != run.settings.class_at(KEY) and field in (run.settings.schema.fields(held or "") or {}):
                return recipe.value(key)
        return run.value(key)


def _only_prompt(template: str) -> bool:
    """Whether a template has the placeholder ``{prompt}`` and no other, and can be filled in."""
    import string  # compiles a pattern, and most runs have no template

    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
        template.format(prompt="")
    except (IndexError, KeyError, ValueError, AttributeError, TypeError):
        return False
    return bool(fields) and all(field == "prompt" for field in fields)


RULES: tuple[Rule, ...] = (Preprocessing(),)
