"""What the checkpoint section of a complete file refuses while it is loaded."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.releases import NIGHTLY, R04
from mbpack.rules.base import REJECTED_LOAD, Finding, Fix, RejectingRule, Rule, built_at, in_yaml, set_to, words

STRATEGY, VERIFY, FORMAT = "checkpoint.async_strategy", "checkpoint.verify_integrity", "checkpoint.ckpt_format"
STRATEGIES = ("nvrx", "mcore")


class AtLoad(RejectingRule):
    """Checkpoints are saved asynchronously by one of two libraries, and verified in one format.

    `async_strategy` is nvrx or mcore, and `verify_integrity` needs ckpt_format torch_dist. Both are checked when the section of
    a complete file is made, never for overrides of a recipe.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, num_layers: 2, hidden_size: 64, num_attention_heads: 4}
    checkpoint: {verify_integrity: true, ckpt_format: torch}
    ```
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, num_layers: 2, hidden_size: 64, num_attention_heads: 4}
    checkpoint: {async_strategy: thread}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, num_layers: 2, hidden_size: 64, num_attention_heads: 4}
    train: {train_iters: 10, global_batch_size: 8, micro_batch_size: 1}
    checkpoint: {async_strategy: mcore, verify_integrity: true, ckpt_format: torch_dist}
    ```

    ## Upstream
    - 0.4 to 0.7: Megatron-Core `training/config/training_config.py`, `CheckpointConfig.__post_init__`
    """

    code, slug = "CKP104", "ckpt/at-load"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.complete or not isinstance(run.value("checkpoint"), Object):
            return
        strategy, form = run.value(STRATEGY), run.value(FORMAT)
        if strategy not in STRATEGIES:
            found = in_yaml(strategy)
            message = f"async_strategy must be {words(STRATEGIES, 'or')}, found {found}"
            yield self._refuse(run, STRATEGY, message, (STRATEGY, "mcore"))
        elif run.flag(VERIFY) and form != "torch_dist":
            yield self._refuse(run, VERIFY, f"verify_integrity needs ckpt_format torch_dist, found {form}", (VERIFY, False))

    def _refuse(self, run: Run, key: str, message: str, right: tuple[str, object]) -> Finding:
        name, value = key.partition(".")[2], right[1]
        return self.finding(
            run,
            REJECTED_LOAD,
            key,
            message,
            related=(FORMAT,) if key == VERIFY else (),
            fix=Fix(f"{name}: {in_yaml(value)}", set_to(run, right)),
            station="load",
            offset=built_at(run, "checkpoint"),
        )


RULES: tuple[Rule, ...] = (AtLoad(),)
