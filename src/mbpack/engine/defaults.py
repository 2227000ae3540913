"""Defaults of environment variables are likely values, not certain ones: what holds only with them is said so.

``${oc.env:X,8}`` in a file and ``${X:-8}`` in a script stand for 8 only while nobody sets X. The configuration is judged with the
defaults and once more with nothing in their place; what is found only with them is a warning and never decides the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mbpack.config.document import Interpolation
from mbpack.engine.result import Result
from mbpack.engine.weaken import mark, soften, uncertain
from mbpack.facts.releases import NIGHTLY
from mbpack.rules.base import Finding, words

if TYPE_CHECKING:
    from mbpack.engine.doctor import Request

#: Variables that are tried one by one for the one that a finding rests on.
_TRIED = 4
_VARIABLE = re.compile(r"oc\.env:(\w+)")


def doubt(request: Request, result: Result, judged: Callable[[Request], Result]) -> None:
    """Weaken in ``result`` what rests on the default of an environment variable; ``judged`` judges a request without doubt."""
    assumed = tuple(result.run.settings.assumed) if result.run is not None else ()
    names = tuple(dict.fromkeys((*assumed, *_of_the_launch(request))))
    if not names or result.run is None or not (result.findings or result.verdict != "unknown"):
        return
    sure = judged(_without(request, names))
    if sure.run is None:
        return
    open_marks = {mark(finding) for finding in uncertain(result, sure)}
    blamed: dict[tuple[str, str], list[str]] = {}
    if open_marks and 1 < len(names) <= _TRIED:
        for name in names:
            left = {mark(finding) for finding in judged(_without(request, (name,))).findings}
            for missing in open_marks - left:
                blamed.setdefault(missing, []).append(name)
    if len(names) > _TRIED:
        soften(result, sure, lambda finding: label(_written_there(request, finding)))
    else:
        soften(result, sure, lambda finding: label(blamed.get(mark(finding), names)))


def label(names: Sequence[str]) -> str:
    """The condition under which a finding holds; of no names: that of all defaults.

    >>> label(["TP", "CP"])
    'if TP and CP are not set'
    """
    if not names:
        return "if the variables that have defaults are not set"
    return f"if {words(names)} {'is' if len(names) == 1 else 'are'} not set"


def _written_there(request: Request, finding: Finding) -> list[str]:
    """The variables whose defaults stand at the keys of a finding."""
    held: Mapping[str, tuple[str, ...]] = {}
    if request.launch is not None:
        from mbpack.config.launched import defaults_by_key

        held = defaults_by_key(request.launch, NIGHTLY)
    found: dict[str, None] = {}
    for setting in (finding.setting, *finding.related):
        item = setting.item
        if item is not None and isinstance(item.value, Interpolation):
            found.update(dict.fromkeys(_VARIABLE.findall(item.value)))
        found.update(dict.fromkeys(held.get(setting.key, ())))
    return list(found)


def _of_the_launch(request: Request) -> tuple[str, ...]:
    if request.launch is None:
        return ()
    from mbpack.config.launched import defaults_of

    given: Mapping[str, str] | None = request.environ
    return tuple(name for name in defaults_of(request.launch) if given is None or name in given)


def _without(request: Request, names: tuple[str, ...]) -> Request:
    """The request with nothing in the place of these variables' defaults."""
    launch = request.launch
    if launch is not None:
        from mbpack.config.launched import without_defaults

        launch = without_defaults(launch, names)
    return replace(request, launch=launch, doubted=frozenset(names))
