"""Text, lists and mappings in the place of a number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite

from mbpack.config.document import Interpolation
from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown
from mbpack.config.written import Written, written_values
from mbpack.facts.order import position
from mbpack.rules.base import CRASH_DATA, REJECTED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule
from mbpack.rules.files import null_numbers

_NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.\d*)?([eE][-+]?\d+)?|\.\d+)$")
#: What the start-up divides, or divides by, and wants no remainder of.
DIVIDED = frozenset(
    "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size virtual_pipeline_model_parallel_size "
    "global_batch_size eval_global_batch_size num_query_groups moe_router_group_topk moe_router_num_groups".split()
)
#: The deviation of the initial weights is divided by the root of twice this number.
LAYERS = ("model.num_layers", "model.transformer.num_layers")
#: Classes of written values that are no numbers, and the types of fields that take them; interpolations are resolved first.
_NO_NUMBERS: dict[type, tuple[str, ...]] = {
    str: ("str",),
    list: ("list", "tuple"),
    dict: ("dict",),
    Object: ("dict",),
    Interpolation: ("str",),
}


class QuotedNumber(RejectingRule):
    """A quoted number is text, and neither text nor a list nor a mapping can be calculated with.

    The start-up stops with a TypeError where it first compares or divides the value; values it never looks at fail
    later.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: '8'}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate` (TypeError)
    """

    code, slug = "CFG111", "cfg/quoted-number"
    late = True

    def check(self, run: Run) -> Iterator[Finding]:
        yield from self._texts(run)
        for written in written_values(run):
            value = written.item.value
            if value.__class__ is float and not isfinite(value) and written.path.rpartition(".")[2] in DIVIDED:
                stations = [station for setting, station in run.stopped if station and setting.item is written.item]
                if stations:
                    yield self.finding(
                        run,
                        REJECTED,
                        written.path,
                        f"{written.path} is {value}: nothing divides by it without a remainder",
                        why="The start-up asks for a division without one.",
                        setting=written.setting,
                        fix=Fix("a whole number"),
                        station=min(stations, key=lambda name: position(run.release, name)),
                    )

    def _texts(self, run: Run) -> Iterator[Finding]:
        for written in written_values(run):
            if written.item.value.__class__ not in _NO_NUMBERS:
                continue
            kinds = written.kinds
            if not kinds & {"int", "float"}:
                continue
            value = _resolved(run, written)
            if isinstance(value, dict) and "_target_" in value and not isinstance(written.item.value, Interpolation):
                continue
            if value.__class__ not in _NO_NUMBERS or any(kind.startswith(_NO_NUMBERS[value.__class__]) for kind in kinds):
                continue
            stations = [station for setting, station in run.stopped if station and setting.item is written.item]
            if written.path in LAYERS and not null_numbers.has_pattern(run):
                stations.append("section:model@layers")
            outcome = CRASH_DATA
            station = ""
            if stations:
                outcome = REJECTED
                station = min(stations, key=lambda name: position(run.release, name))
                if station == "load":
                    outcome = REJECTED_LOAD
            number = value.strip().replace("_", "") if isinstance(value, str) else ""
            is_number = bool(_NUMBER.match(number))
            shown = number if is_number else "a number"
            what = f"text ({value!r})" if isinstance(value, str) else "a list" if isinstance(value, list) else "a mapping"
            edits = (Edit("set", written.path, _parse(number)),) if is_number else ()
            yield self.finding(
                run,
                outcome,
                written.path,
                f"{written.path} is {what}, not a number",
                why="The start-up calculates with it and stops with a TypeError."
                if outcome.consequence == "rejected"
                else "The start-up does not look at it; the first calculation fails.",
                setting=written.setting,
                fix=Fix(f"{written.path.rpartition('.')[2]}: {shown}", edits, safe=is_number),
                station=station,
            )


def _resolved(run: Run, written: Written) -> object:
    """The value as upstream will see it (an environment variable becomes text), or None where it cannot be told."""
    value = written.item.value
    if not isinstance(value, Interpolation):
        return value
    try:
        found = run.settings.resolve(written.path, value)
    except Unknown:
        return None
    return None if found.unknown else found.value


def _parse(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


RULES: tuple[Rule, ...] = (QuotedNumber(),)
