"""How a report says that the recipe is not known: which recipes fit, with how many a finding holds, and what naming one would settle."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.engine.candidates import by_file_name
from mbpack.engine.result import Candidates, Result
from mbpack.report.style import Style
from mbpack.rules.base import HoldsFor, words

#: What may not be known: as reports call it, and the flag that says it, the most telling first.
_INPUTS = {"launcher": "launcher", "gpu": "GPU", "bridge": "Megatron-Bridge"}
_FLAGS = {
    "recipe": "--recipe NAME",
    "launcher": "--launcher NAME",
    "gpus": "--gpus N",
    "gpu": "--gpu NAME",
    "bridge": "--bridge R",
}


def heading(result: Result) -> str:
    """What the first line of a report says instead of a recipe's name; "" where it has one."""
    held = result.candidates
    if held is None or result.context is None:
        return ""
    text = f"recipe unknown: {_counted(len(held.names), 'recipe')} of {result.context.version.release} fit{'s' if len(held.names) == 1 else ''}"
    near = by_file_name(result.path, held.names)
    if near and len(near) < len(held.names):
        more = f" and {len(near) - 1} more" if len(near) > 1 else ""
        text += f" ({near[0]}{more} by the file's name)"
    return text


def holds_for(held: HoldsFor) -> str:
    """With how many values of what is not known a finding holds, with some of either kind."""
    if held.input == "gpus":
        return _by_count(held)
    if held.input == "recipe":
        text = f"with {held.number} of {held.of} recipes, such as {words(held.such_as)}"
    else:
        text = f"with {_INPUTS[held.input]} {words(held.such_as, 'or')}"
    text += f"; not with {words(held.not_with, 'or')}" if held.not_with else ""
    return text + (f"; with {held.also}" if held.also else "")


def _by_count(held: HoldsFor) -> str:
    """From which number of GPUs on, or up to which, where that can be said so."""
    inside, outside = sorted(map(int, held.such_as)), sorted(map(int, held.not_with))
    if outside and inside[0] > outside[-1]:
        return f"from {inside[0]} GPUs on; not with up to {outside[-1]}"
    if outside and inside[-1] < outside[0]:
        return f"with up to {inside[-1]} GPUs; not from {outside[0]} on"
    return f"with {words(inside, 'or')} GPUs; not with {words(outside, 'or')}"


def closing(result: Result, held: Candidates, style: Style) -> Iterator[str]:
    """Below the findings: what hardly any recipe brings, and the verdict by recipe."""
    if held.few:
        codes = list(dict.fromkeys(finding.rule.code for finding in held.few))
        shown = words(codes[:5]) if len(codes) <= 5 else f"{', '.join(codes[:5])} and {len(codes) - 5} more"
        yield from style.wrap(f"{shown}: only with few of the recipes (below 10%)", "On few    ", "          ")
    if 0 < held.rejected < len(held.names) or held.open:
        yield from style.wrap(_start_up(result, held), "Start-up  ", "          ")


def _start_up(result: Result, held: Candidates) -> str:
    """With how many recipes the start-up goes on, and what is lacking to tell it for the others."""
    number = len(held.names)
    counts = [f"{verb} with {count}" for verb, count in (("refused", held.rejected), ("accepted", held.accepted)) if count]
    if counts:
        counts[0] += f" of {_counted(number, 'recipe')}"
    if held.open:
        context = result.context
        lacking = [flag for name, flag in _FLAGS.items() if name in ("launcher", "gpus") and getattr(context, name) is None]
        which = "with any recipe" if held.open == number else f"with {held.open}{'' if counts else f' of {number} recipes'}"
        counts.append(f"not to be told {which}{f' without {words(lacking)}' if lacking else ''}")
    return ", ".join(counts)


def releases(result: Result) -> str:
    """Where the releases differ that a file may be for: what each set of them brings, by code."""
    by_releases: dict[tuple[str, ...], list[str]] = {}
    for finding in result.by_release:
        assert finding.holds_for is not None
        by_releases.setdefault(finding.holds_for.such_as, []).append(finding.rule.code)
    parts = [f"{words(dict.fromkeys(codes))} with {words(names)} only" for names, codes in by_releases.items()]
    return "; ".join(parts)


def question(result: Result) -> str:
    """The one flag that would settle most of what is open, and how much; "" where none would settle anything."""
    settled = dict.fromkeys(_FLAGS, 0)
    for finding in result.findings:
        held = finding.holds_for
        if held is not None:
            settled[held.input] += 1
            if held.also:
                settled[held.also.partition(" ")[0]] += 1
    settled["bridge"] += len(result.by_release)
    for entry in result.not_checked:
        for need in entry.needs:
            if need in settled:
                settled[need] += 1
    if result.candidates is not None:
        settled["recipe"] += len(result.candidates.few)
    most = max(settled, key=lambda name: settled[name])
    return f"{_FLAGS[most]} settles {_counted(settled[most], 'more finding')}" if settled[most] else ""


def listing(held: Candidates, style: Style) -> Iterator[str]:
    """All candidates, for --show-candidates."""
    yield style.paint("bold", f"Candidates ({len(held.names)})")
    yield from (f"  {name}" for name in held.names)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
