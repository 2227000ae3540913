"""Choose the neighbours of examples that tell something about a rule, for :mod:`tests.rules.neighbours`.

    python -m tests.rules.choose_neighbours              for every rule that has none yet
    python -m tests.rules.choose_neighbours batch/...    for these rules, anew, with more of their cases

A change is kept when the rule answers otherwise than to the example, once per key and answer, the smallest step first;
beside a number that matters its next neighbours are kept too, so that both sides of every limit are on record. Changes of a
documentation's bad example are also tried under other releases and launchers, and two at a time, so that the second of two
guards is met alone; they are kept where the answer is a new one.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from mbpack.config.context import ContextError
from mbpack.config.settings import ABSENT, Settings, Unknown
from mbpack.facts.keys import path_in
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES, BY_NAME
from mbpack.rules.documentation import page_of
from tests.rules.found import in_text
from tests.rules.neighbours import FOLDER, Answer, Example, read, run_of, write
from tests.rules.test_cases import FILES as CASE_FILES
from tests.rules.test_cases import load_cases

RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7", "nightly")
_DIRECTIVE = re.compile(r"^# mbpack:(.*)$", re.MULTILINE)
#: Changes kept of one example, and examples of one rule from the YAML cases: usually, and for a rule named by its slug.
MOST, CASES_PER_RULE, CASES_OF_NAMED = 64, 3, 12
#: Pairs of changes kept of one example of a documentation: with a release or launcher, and of two values.
PAIRS, VALUE_PAIRS = 24, 10
#: Pairs of two values that are tried for one example, drawn with a fixed seed.
TRIED = 120


def bases(rule: Rule, most: int = CASES_PER_RULE) -> Iterator[Example]:
    """The examples of a rule as trees; those that YAML cannot carry (duplicate keys, broken files) are left out."""
    page = page_of(rule)
    for origin, texts in (("Bad", page.bad), ("Good", page.good)):
        for number, text in enumerate(texts, 1):
            words = dict(w.split("=", 1) for m in _DIRECTIVE.finditer(text) for w in m[1].split() if "=" in w)
            yield from _example(rule, f"{origin} {number}", text, words, in_text(text))
    kept = 0
    for path in CASE_FILES:
        for case in load_cases(path):
            concerned = [e["slug"] for e in case.get("expect", ()) if "slug" in e] + list(case.get("absent", ()))
            if rule.slug not in concerned or case.get("arguments") or "input" not in case or kept >= most:
                continue
            kept += 1
            words = dict(w.split("=", 1) for m in _DIRECTIVE.finditer(case["input"]) for w in m[1].split() if "=" in w)
            words |= {
                n: str(case[n]) for n in ("bridge", "recipe", "gpus", "launcher", "step", "nodes") if case.get(n) is not None
            }
            yield from _example(rule, f"{path.stem}: {case['name']}", case["input"], words, {})


def _example(rule: Rule, origin: str, text: str, context: dict[str, str], found: dict[str, Any]) -> Iterator[Example]:
    try:
        tree = yaml.safe_load(text)
        json.dumps(tree)
        if isinstance(tree, dict) and "|" not in origin:
            example = Example(rule.slug, origin, context, tree, found)
            example.answers["itself"] = example.answer("itself")
            yield example
    except (yaml.YAMLError, TypeError, ContextError, ValueError):
        return


def choose(example: Example, most: int = MOST) -> None:
    """Fill in the changes worth keeping."""
    base = example.answers["itself"]
    answers: dict[str, Answer] = {}
    steps: dict[str, list[str]] = defaultdict(list)
    for key, change in candidates(example):
        if change in answers:
            continue
        try:
            answers[change] = example.answer(change)
        except (ContextError, AssertionError):  # no such recipe in that release, evidence of an impossible kind
            continue
        except Exception as error:
            _say_failed(example, change, error)
            continue
        steps[key].append(change)
    kept: list[str] = []
    for key, changes in steps.items():
        if key in ("bridge", "launcher"):
            kept += changes
            continue
        seen: Counter[Answer] = Counter()
        telling = [change for change in changes if answers[change] != base]
        for change in telling:
            seen[answers[change]] += 1
            if seen[answers[change]] == 1:
                kept.append(change)
        if telling:
            kept += [change for change in changes if change not in telling][:2]
    for change in kept[:most]:
        example.answers[change] = answers[change]
    if example.origin.startswith("Bad"):
        _choose_pairs(example, [change for changes in steps.values() for change in changes], answers)
        _choose_value_pairs(example, steps, answers)


def _choose_pairs(example: Example, changes: list[str], answers: Mapping[str, Answer]) -> None:
    """Changes under another release or launcher that give an answer of their own."""
    seen, kept = set(example.answers.values()), 0
    for circumstance in (*(f"bridge={release}" for release in RELEASES), "launcher=run_recipe"):
        alone = answers.get(circumstance, ("does not apply",))
        if alone == ("does not apply",) or (alone == example.answers["itself"] and circumstance.startswith("bridge")):
            continue
        for change in changes:
            if change.lstrip("-").partition("=")[0] in ("bridge", "launcher") or kept >= PAIRS:
                continue
            pair = f"{change} & {circumstance}"
            try:
                answer = example.answer(pair)
            except (ContextError, AssertionError):
                continue
            except Exception as error:
                _say_failed(example, pair, error)
                continue
            if answer not in seen:
                seen.add(answer)
                kept += 1
                example.answers[pair] = answer


def _say_failed(example: Example, change: str, error: Exception) -> None:
    """A rule that fails is a defect to mend, not a neighbour; evidence of an impossible kind is no defect."""
    if "found." not in change:
        print(f"{example.slug} ({example.origin}), {change}: {type(error).__name__}: {error}", file=sys.stderr)


def _choose_value_pairs(example: Example, steps: Mapping[str, list[str]], answers: Mapping[str, Answer]) -> None:
    """Two changes at once that give an answer neither gives alone."""
    pairs = [
        (one, other)
        for a, b in itertools.combinations([key for key in steps if key not in ("bridge", "launcher")], 2)
        if not a.startswith(f"{b}.") and not b.startswith(f"{a}.")
        for one, other in itertools.product(steps[a][:6], steps[b][:6])
    ]
    kept = 0
    for one, other in random.Random(example.origin).sample(pairs, min(TRIED, len(pairs))):
        try:
            answer = example.answer(f"{one} & {other}")
        except (ContextError, AssertionError):
            continue
        except Exception as error:
            _say_failed(example, f"{one} & {other}", error)
            continue
        if answer not in (answers[one], answers[other]) and kept < VALUE_PAIRS:
            kept += 1
            example.answers[f"{one} & {other}"] = answer


def candidates(example: Example) -> Iterator[tuple[str, str]]:
    """Changes that may tell something: the key or circumstance, and the change."""
    words = _words_of(example.slug)
    for release in RELEASES:
        yield "bridge", f"bridge={release}"
    for launcher in ("script", "run_recipe"):
        yield "launcher", f"launcher={launcher}"
    yield "launcher", "-launcher"
    gpus = int(example.context.get("gpus", 0))
    if gpus:
        for number in (gpus * 2, gpus // 2, gpus + 1, 1):
            yield "gpus", f"gpus={number}"
        yield "gpus", "-gpus"
    for name in ("recipe", "step", "nodes"):
        if name in example.context:
            yield name, f"-{name}"
    written = dict(_leaves(example.tree))
    for path, value in written.items():
        if "." not in path and isinstance(value, dict):
            continue
        for new in _values(value, words):
            yield path, f"{path}={json.dumps(new)}"
        yield path, f"-{path}"
    for path, value in _leaves(example.found):
        for new in _values(value, words):
            yield f"found.{path}", f"found.{path}={json.dumps(new)}"
        yield f"found.{path}", f"-found.{path}"
    for path, value in _unwritten(example, set(written)):
        for new in itertools.islice(_values(value, words), 8):
            yield path, f"{path}={json.dumps(new)}"


def _leaves(tree: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items() if isinstance(tree, dict) else ():
        if isinstance(name, str) and "." not in name and " " not in name:
            yield f"{above}{name}", value
            yield from _leaves(value, f"{above}{name}.")


def _values(value: Any, words: tuple[str, ...]) -> Iterator[Any]:
    """Values near a value, the nearest first."""
    if isinstance(value, bool):
        yield from (not value, None, 1, "other")
    elif isinstance(value, int):
        yield from dict.fromkeys(n for n in (value - 1, value + 1, 1, 0, 2, value * 2, value // 2, -1) if n != value)
        yield from (None, "other", value + 0.5)
    elif isinstance(value, float):
        yield from (value / 2, value * 2, 0.0, 1.0, None)
    elif isinstance(value, str):
        yield from (word for word in words if word != value)
        yield from ("other", None)
    elif isinstance(value, list):
        yield from ((value[:-1], []) if value else ())
        yield from ([*value, value[-1]] if value else [1], None)
    elif isinstance(value, dict):
        yield from (None, {}, 1)
    else:
        yield from (True, 1, 0, *words[:3], False, 2, -1, *words[3:], "other", [1])


def _unwritten(example: Example, written: set[str]) -> list[tuple[str, Any]]:
    """Keys that the rule reads and the file does not set, with their values, as the release spells them."""
    context, tree, found = example.changed("itself")
    run = run_of(context, tree, found)
    asked: dict[str, Any] = {}
    find = Settings.find

    def spy(self: Settings, key: str) -> Any:
        try:
            answer = find(self, key)
        except Unknown:
            asked.setdefault(key, None)
            raise
        asked.setdefault(key, answer.value)
        return answer

    Settings.find = spy  # type: ignore[method-assign]
    try:
        list(example.rule.check(run))
    except Exception:
        pass
    finally:
        Settings.find = find  # type: ignore[method-assign]
    keys = [(path_in(run.release, key), value) for key, value in asked.items()]
    return [(k, _simple(v)) for k, v in keys if k not in written and not any(w.startswith(f"{k}.") for w in written)]


def _simple(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, list)) and value is not ABSENT else None


@cache
def _words_of(slug: str) -> tuple[str, ...]:
    """Words that the rule's source compares with: short strings of its class."""
    tree = ast.parse(inspect.getsource(type(BY_NAME[slug])))
    found = [
        node.value
        for parent in ast.walk(tree)
        if isinstance(parent, ast.Compare)
        for node in ast.walk(parent)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[a-z0-9_+-]{2,20}", node.value)
    ]
    return tuple(dict.fromkeys(found))[:5]


def main() -> None:
    wanted = sys.argv[1:]
    by_topic: dict[str, list[Example]] = defaultdict(list)
    known: set[str] = set()
    for path in sorted(FOLDER.glob("*.txt")):
        for example in read(path):
            if example.slug not in wanted and example.slug in BY_NAME:
                by_topic[path.stem].append(example)
                known.add(example.slug)
    place = {rule.slug: number for number, rule in enumerate(ALL_RULES)}
    FOLDER.mkdir(exist_ok=True)
    for topic in sorted({rule.topic for rule in ALL_RULES}):
        chosen = [r for r in ALL_RULES if r.topic == topic and r.slug not in known and (not wanted or r.slug in wanted)]
        for rule in chosen:
            for example in bases(rule, CASES_OF_NAMED if wanted else CASES_PER_RULE):
                choose(example)
                by_topic[topic].append(example)
        if by_topic[topic] and chosen:
            write(FOLDER / f"{topic}.txt", sorted(by_topic[topic], key=lambda example: place[example.slug]))


if __name__ == "__main__":
    main()
