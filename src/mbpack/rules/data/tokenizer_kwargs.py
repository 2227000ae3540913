"""Arguments for the tokenizer, from which the start-up takes some."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.releases import NIGHTLY, R05
from mbpack.rules.base import REJECTED, REJECTED_LOAD, Finding, Fix, RejectingRule, Rule, built_at, in_yaml, set_to

KEYS = ("tokenizer.hf_tokenizer_kwargs", "tokenizer.sp_tokenizer_kwargs")


class TokenizerKwargs(RejectingRule):
    """Arguments for the tokenizer are a mapping, an empty one where there are none.

    The type allows null, but from 0.5 on the start-up looks single arguments up in it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    tokenizer: {hf_tokenizer_kwargs: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    tokenizer: {hf_tokenizer_kwargs: {}}
    ```

    ## Upstream
    - 0.5 to 0.7: `training/tokenizers/config.py`, `TokenizerConfig.__post_init__` (AttributeError)
    """

    code, slug = "DAT142", "data/tokenizer-kwargs"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        for key in KEYS:
            if not run.wrote(key):
                continue
            value = run.value(key, {})
            if isinstance(value, (Object, dict)):
                continue
            yield self.finding(
                run,
                REJECTED_LOAD if run.complete else REJECTED,
                key,
                f"{key} must be a mapping, found {in_yaml(value)}",
                why="The start-up looks arguments up in it and stops with an AttributeError.",
                fix=Fix(f"{key.rpartition('.')[2]}: {{}}", set_to(run, (key, {})), safe=value is None),
                station="load" if run.complete else "",
                offset=built_at(run, "tokenizer") if run.complete else None,
            )


RULES: tuple[Rule, ...] = (TokenizerKwargs(),)
