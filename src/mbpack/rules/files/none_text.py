"""The word None in the place of null."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.written import written_texts
from mbpack.rules.base import Edit, Finding, Fix, Outcome, Rule

_WARN = Outcome("warning", "silent", "always")


class NoneText(Rule):
    """`None` is a word in YAML and on the command line, and no null.

    A setting that takes text keeps the word: `checkpoint.load: None` looks for a checkpoint in a directory of that name,
    `checkpoint.save: None` writes there. YAML and KEY=VALUE arguments spell it `null`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {load: None}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {load: null}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `CheckpointConfig`; `training/checkpointing.py`
    """

    code, slug = "CFG143", "cfg/none-text"

    def check(self, run: Run) -> Iterator[Finding]:
        for written in written_texts(run):
            if written.item.value == "None" and {"str", "null"} <= written.kinds:
                yield self.finding(
                    run,
                    _WARN,
                    written.path,
                    f"{written.path} is the text None, not null",
                    why="It takes text: the word counts as a name or a path.",
                    setting=written.setting,
                    fix=Fix(f"{written.path.rpartition('.')[2]}: null", (Edit("set", written.path, None),)),
                )


RULES: tuple[Rule, ...] = (NoneText(),)
