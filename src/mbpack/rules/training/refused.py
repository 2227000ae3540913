"""What the start-up refuses and no other rule has words for: said in the terms of the check itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from mbpack.config.run import Run
from mbpack.config.settings import Setting
from mbpack.facts.order import stations
from mbpack.rules.base import REJECTED, REJECTED_LOAD, Finding, RejectingRule, Rule, in_yaml, place, words

if TYPE_CHECKING:
    from mbpack.checks.evaluate import Refusal, Start
    from mbpack.checks.read import Reading

#: Where the findings of the other rules lie, and all refusals of the tables where several rules refuse.
FOUND, REFUSED = "refused by rules", "refused by tables"
#: Whether a change is only tried: nobody asks then which of several refusals comes first.
TRIED = "tried"
#: Where the start-up lies that the tables were run over.
STARTED = "start-up"
_MOST = 4


class Refused(RejectingRule):
    """The start-up refuses a combination of settings.

    mbpack reads what each release checks at start-up from its sources, as conditions over the settings. This finding says such
    a condition as it stands, with the values that make it true, where no other rule explains it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=1 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.falcon_h1.falconh1_provider.FalconH1ModelProvider
      num_layers: 8
      hidden_size: 128
      seq_length: 4096
    train: {global_batch_size: 8, micro_batch_size: 1, train_iters: 10}
    optimizer: {lr: 1.0e-05}
    scheduler: {lr_decay_style: cosine, lr_warmup_iters: 0}
    dataset:
      _target_: megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig
      seq_length: 4096
      dataset_root: /data/sft
    checkpoint: {}
    dist: {}
    ddp: {}
    logger: {}
    tokenizer: {}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=1 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.falcon_h1.falconh1_provider.FalconH1ModelProvider
      num_layers: 8
      hidden_size: 128
      num_attention_heads: 8
      seq_length: 4096
    train: {global_batch_size: 8, micro_batch_size: 1, train_iters: 10}
    optimizer: {lr: 1.0e-05}
    scheduler: {lr_decay_style: cosine, lr_warmup_iters: 0}
    dataset:
      _target_: megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig
      seq_length: 4096
      dataset_root: /data/sft
    checkpoint: {}
    dist: {}
    ddp: {}
    logger: {}
    tokenizer: {}
    ```

    ## Upstream
    - 0.3 to 0.6: `training/config.py`, `runtime_config_update`, and all that it calls
    """

    code, slug = "CHK101", "check/refused"
    late = True
    reads_findings = True

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.settings.base_known:
            return
        from mbpack.facts.checks import checks  # hardly needed by `mbpack explain`

        table = checks(run.release.name)
        if table is None:
            return
        from mbpack.checks.evaluate import Start

        start = run.memo[STARTED] = Start(run, table)
        said = {one.rule.slug for one in run.memo.get(FOUND, ()) if one.outcome.consequence == "rejected"}
        refusals = start.start(whole=len(said) > 1 and not run.memo.get(TRIED))
        if not refusals:
            return
        if len(said) > 1:
            run.memo[REFUSED] = refusals  # all of them: which comes first can be told
        yield from self._unsaid(run, start, refusals)

    def says_the_same(self, before: Run, after: Run, changed: Collection[tuple[str, ...]]) -> bool:
        """Whether the tables refused nothing and came to no changed key, and would not begin at one of them now."""
        start: Start | None = before.memo.get(STARTED)
        if start is None:
            return not before.settings.base_known
        return not start.refusals and not start.reaches(changed) and not start.begins_at(after, changed)

    def _unsaid(self, run: Run, start: Start, refusals: list[Refusal]) -> Iterator[Finding]:
        from mbpack.checks.names import slugs
        from mbpack.checks.read import read

        found: list[Finding] = [one for one in run.memo.get(FOUND, ()) if one.outcome.consequence == "rejected"]
        said = {one.rule.slug for one in found}
        named = {_own(setting.key) for one in found for setting in (one.setting, *one.related)}
        blamed = {_own(one.setting.key) for one in found}
        explained = False
        for refusal in refusals:
            if said.intersection(slugs().get(refusal.name, ())):
                explained = True
                continue
            if refusal.error and (explained or (found and refusal is not refusals[0])):
                continue  # what Python stumbles over next follows from what is refused already
            reading = read(start.table, refusal, lambda key: _is_written(run, key))
            if named.intersection(reading.keys) or any(_below(key, over) for key in reading.keys for over in blamed):
                explained = True
                continue
            if found and self._follows(run, refusal, reading):
                continue  # it follows from a value that is refused already
            named.update(reading.keys)
            yield self._told(run, start, refusal, reading)

    @staticmethod
    def _follows(run: Run, refusal: Refusal, reading: Reading) -> bool:
        """Whether nothing that somebody wrote is what stops the start-up there."""
        if not refusal.error:
            return not any(_is_written(run, key) for key in reading.keys)
        odd = _odd([setting for key in reading.keys if (setting := _setting(run, key)) is not None])
        return odd is None or odd.item is None

    def _told(self, run: Run, start: Start, refusal: Refusal, reading: Reading) -> Finding:
        shown = [setting for key in reading.keys if (setting := _setting(run, key)) is not None]
        blamed = _odd(shown) if refusal.error else None
        shown.sort(key=lambda setting: (setting is not blamed, setting.item is None))
        blamed = shown[0] if shown else place(run, reading.keys[0] if reading.keys else "model")
        if refusal.error:
            message = f"the start-up cannot work out {reading.condition}"
        else:
            message = f"the start-up refuses {reading.condition}"
        held = [f"{setting.key} is {_shown(setting.value)}" for setting in shown[:_MOST]]
        rule = _rule(run, refusal, blamed) or self
        made = refusal.made and blamed.item is not None
        return rule.finding(
            run,
            REJECTED_LOAD if refusal.made else REJECTED,
            blamed.key,
            message,
            why=f"{reading.place} checks it; here {words(held)}." if held else f"{reading.place} checks it.",
            setting=blamed,
            station="load" if refusal.made else _station(run, start, refusal),
            offset=blamed.item.span.end if made and blamed.item is not None else 1,
        )


def _own(key: str) -> str:
    """A key of the part of a model that holds Megatron-Core's settings as the model's own."""
    return key.replace("model.transformer.", "model.", 1)


def _below(key: str, over: str) -> bool:
    """Whether a key lies in what another one stands for: nobody can say what it holds when that is refused."""
    return key.startswith(over + ".") and "." in key


def _odd(shown: list[Setting]) -> Setting | None:
    """The value that Python cannot calculate with: null first, then text, lists and mappings."""
    nulls = [setting for setting in shown if setting.value is None]
    others = [setting for setting in shown if isinstance(setting.value, (str, list, dict))]
    odd = [*nulls, *others]
    return next((setting for setting in odd if setting.item is not None), odd[0] if odd else None)


def _odd_rule(error: str, blamed: Setting) -> tuple[str, ...]:
    """The rule about values of another kind than a section, a number or a text must have."""
    if "." not in blamed.key:
        return ("cfg/section-null",)
    if blamed.value is None:
        return ("cfg/null-number",)
    return ("cfg/quoted-number",) if error == "TypeError" else ()


def _rule(run: Run, refusal: Refusal, blamed: Setting) -> Rule | None:
    """The rule that speaks for a check, whether or not it has words for this case."""
    from mbpack.checks.names import slugs

    names: tuple[str, ...] = slugs().get(refusal.name, ())
    if refusal.error in ("TypeError", "AttributeError") and not refusal.made:
        names = _odd_rule(refusal.error, blamed)
    if not names:
        return None
    from mbpack.rules.catalogue import BY_NAME  # all rules: only where something is refused that no rule has said

    found = BY_NAME.get(names[0])
    return found if found is not None and found.applies(run.release) else None


def _setting(run: Run, path: str) -> Setting | None:
    from mbpack.checks.values import canonical

    found = run.settings.peek(canonical(run.release, path))
    return None if found is None or found.absent else found


def _is_written(run: Run, path: str) -> bool:
    found = _setting(run, path)
    return found is not None and found.item is not None


def _shown(value: Any) -> str:
    text = in_yaml(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _station(run: Run, start: Start, refusal: Refusal) -> str:
    """The last station before a refusal that a rule is known for."""
    from mbpack.checks.names import slugs

    known, latest = stations(run.release), "topo/world-divisible"
    for name, block, row in start.names():
        if (block, row) == (refusal.block, refusal.row[0]):
            break
        for slug in slugs().get(name, ()):
            if known.get(slug, -1) > known[latest]:
                latest = slug
    return latest


RULES: tuple[Rule, ...] = (Refused(),)
