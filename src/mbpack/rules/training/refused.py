"""What the start-up refuses and no other rule has words for: said in the terms of the check itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mbpack.config.run import Run
from mbpack.config.settings import Object, Setting, Unknown
from mbpack.facts.order import position, stations
from mbpack.rules.base import REJECTED, REJECTED_LOAD, Finding, RejectingRule, Rule, in_yaml, place, words
from mbpack.rules.worded import Told, Worded, table_of, worded

if TYPE_CHECKING:
    from mbpack.checks.evaluate import Refusal, Start
    from mbpack.checks.read import Reading

#: Where the findings of the other rules lie, and all refusals of the tables where several rules refuse.
FOUND, REFUSED = "refused by rules", "refused by tables"
#: Whether a change is only tried: nobody asks then which of several refusals comes first.
TRIED = "tried"
#: Where the start-up lies that the tables were run over.
STARTED = "start-up"
#: What was told of it, under the codes of the rules that speak for the checks.
TOLD = "told by tables"
#: Worded rules that could not be judged, each with the value that is not known.
OPEN = "left open by tables"
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
        from mbpack.checks.evaluate import Start
        from mbpack.facts.checks import checks  # hardly needed by `mbpack explain`

        known = checks(run.release.name) is not None
        start = run.memo[STARTED] = Start(run, table_of(run.release))
        said = {one.rule.slug for one in run.memo.get(FOUND, ()) if one.outcome.consequence == "rejected"}
        whole = known and not run.memo.get(TRIED)
        refusals = start.start(whole=whole and len(said) > 1)
        if whole and len(said) == 1 and any(worded(refusal.name) for refusal in refusals):
            start = run.memo[STARTED] = Start(run, start.table)
            refusals = start.start(whole=True)
        run.memo[OPEN] = _left_open(start) if start.values.unknown else []
        if not known:
            refusals = [refusal for refusal in refusals if not refusal.error and worded(refusal.name) is not None]
        if not refusals:
            return
        if known and said:
            run.memo[REFUSED] = refusals  # all of them: which comes first can be told
        told: list[Finding] = run.memo.setdefault(TOLD, [])
        for finding in self._unsaid(run, start, refusals):
            told.append(finding)
            yield finding

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
        told = Told()
        for number, refusal in enumerate(refusals, 1):
            check = refusal if not refusal.error else self._of_null(run, start, refusal)
            rule = worded(check.name)
            if said.intersection(slugs().get(refusal.name, ())):
                explained = True
                continue
            if refusal.error and (explained or (found and refusal is not refusals[0])):
                continue  # what Python stumbles over next follows from what is refused already
            reading = read(start.table, refusal, lambda key: _is_written(run, key))
            if any(_below(key, over) for key in reading.keys for over in blamed):
                explained = True
                continue
            if rule is not None and rule.applies(run.release):
                named.update(reading.keys)
                explained = True
                station = _latest(run, rule.slug, _station(run, start, refusal))
                finding = rule.told(run, start.table, check, station, number)
                if told.is_new(finding):
                    yield finding
                continue
            if named.intersection(reading.keys):
                moved = self._sooner(run, start, refusal, reading) if refusal.error and not explained else None
                if moved is not None:
                    yield moved
                explained = True
                continue
            if found and self._follows(run, refusal, reading):
                continue  # it follows from a value that is refused already
            named.update(reading.keys)
            yield self._told(run, start, refusal, reading)

    @staticmethod
    def _of_null(run: Run, start: Start, refusal: Refusal) -> Refusal:
        """Python's error by the name of the check that it keeps from being made, where what it stumbles over is null or a number."""
        from mbpack.checks.decided import decided_by_more
        from mbpack.checks.read import asked

        shown = [setting for key in asked(start.table, refusal).own if (setting := _setting(run, key)) is not None]
        odd = _odd(shown)
        if odd is None and shown and not refusal.check and len(refusal.row) == 1:
            return refusal._replace(name=decided_by_more(start.table.block(refusal.block), refusal.row[0]))
        return refusal._replace(name=refusal.check if odd is not None and odd.value is None else "")

    @staticmethod
    def _sooner(run: Run, start: Start, refusal: Refusal, reading: Reading) -> Finding | None:
        """What is said of a value of another kind, where it stops the start-up before another refusal that seems to come first."""
        kinds = ("cfg/quoted-number", "cfg/null-number")
        found: list[Finding] = run.memo[FOUND]
        one = next((one for one in found if one.rule.slug in kinds and _own(one.setting.key) in reading.keys), None)
        if one is None or refusal.made:
            return None
        station = _station(run, start, refusal)
        here, said = position(run.release, station), position(run.release, one.station)
        refusing = (other for other in found if other is not one and other.outcome.consequence == "rejected")
        if not any(here < position(run.release, other.station) < said for other in refusing):
            return None  # it is the first as it is
        found.remove(one)
        moved: Finding = replace(one, station=station, offset=1)
        return moved

    @staticmethod
    def _follows(run: Run, refusal: Refusal, reading: Reading) -> bool:
        """Whether nothing that somebody wrote is what stops the start-up there."""
        if not refusal.error:
            return not any(_is_written(run, key) for key in reading.keys)
        odd = _odd([setting for key in reading.keys if (setting := _setting(run, key)) is not None])
        return odd is None or odd.item is None

    def _told(self, run: Run, start: Start, refusal: Refusal, reading: Reading) -> Finding:
        shown = [setting for key in reading.keys if (setting := _setting(run, key)) is not None]
        odd = _odd(shown) if refusal.error else None
        shown.sort(key=lambda setting: (setting.item is None, setting is not odd))
        blamed = shown[0] if shown else place(run, reading.keys[0] if reading.keys else "model")
        if refusal.error:
            message = f"the start-up cannot work out {reading.condition}"
        else:
            message = f"the start-up refuses {reading.condition}"
        held = [f"{setting.key} is {_shown(setting.value)}" for setting in shown[:_MOST]]
        rule = _rule(run, refusal, odd or blamed) or self
        later = next((one for one in run.memo.get(FOUND, ()) if one.rule is rule and one.setting.key == blamed.key), None)
        if later is not None and not refusal.made:  # the same value, said to fail later: it stops here already
            run.memo[FOUND].remove(later)
            moved: Finding = replace(later, outcome=REJECTED, station=_station(run, start, refusal), offset=1)
            return moved
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


def _left_open(start: Start) -> list[tuple[Worded, Unknown]]:
    """The entries that cannot be judged, each once, with the value that is not known."""
    from mbpack.checks.single import unknown

    found: dict[Worded, Unknown] = {}
    for name, lack in unknown(start):
        rule = worded(name)
        if rule is not None:
            found[rule] = lack
    return list(found.items())


def _own(key: str) -> str:
    """A key of the part of a model that holds Megatron-Core's settings as the model's own."""
    return key.replace("model.transformer.", "model.", 1)


def _below(key: str, over: str) -> bool:
    """Whether a key lies in what another one stands for: nobody can say what it holds when that is refused."""
    return key.startswith(over + ".") and "." in key


def _odd(shown: list[Setting]) -> Setting | None:
    """The value that Python cannot calculate with: null first, then text, lists and mappings."""
    nulls = [setting for setting in shown if setting.value is None]
    others = [setting for setting in shown if isinstance(setting.value, (str, list, dict)) or _is_mapping(setting.value)]
    odd = [*nulls, *others]
    return next((setting for setting in odd if setting.item is not None), odd[0] if odd else None)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Object) and value.target is None


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
    entry = worded(refusal.name)
    if entry is not None:
        names = (entry.slug,)
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
    """The station of the last check before a refusal that a rule speaks for."""
    from mbpack.checks.names import slugs

    known, latest = stations(run.release), "topo/world-divisible"
    for name, block, row in start.names():
        if (block, row) == (refusal.block, refusal.row[0]):
            break
        latest = next((slug for slug in slugs().get(name, ()) if slug in known), latest)
    return latest


def _latest(run: Run, own: str, before: str) -> str:
    """The station of a rule, or the one that its check certainly comes after where the rule has none or an earlier one."""
    return own if own in stations(run.release) and position(run.release, own) >= position(run.release, before) else before


RULES: tuple[Rule, ...] = (Refused(),)
