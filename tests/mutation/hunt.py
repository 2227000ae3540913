"""Look for the neighbours of examples that tell a mutant of a rule from the original, and put them on record.

    python -m tests.mutation.hunt --module rules/parallel/topology          what would be added, and what no neighbour tells apart
    python -m tests.mutation.hunt --add                            all modules of rules; adds to tests/data/neighbours

A mutant that an answer on record already tells apart is left alone. For the others the examples of the rules concerned are
changed at one and at two places (``tests/rules/choose_neighbours.py``); of the changes that a mutant answers otherwise, the few
that tell most mutants apart are kept. What is added is mbpack's own answer of today: read the diff before it is committed.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import re
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES
from tests.rules import neighbours
from tests.rules.choose_neighbours import bases, candidates
from tests.rules.neighbours import FOLDER, Answer, Example, answer_to

from . import swap
from .population import SOURCES, Mutant, modules, mutants_of

#: Examples of a rule, pairs of changes of an example that are tried, and changes of one module looked at.
EXAMPLES, PAIRS, MOST = 30, 60, 9000
#: Seconds one mutant may take.
LIMIT = 60


class Neighbour(NamedTuple):
    """A change of an example, the configuration it gives, and what the rule says about it."""

    example: Example
    change: str
    run: Any
    answer: Answer
    known: bool  # on record


def rules_of(module: str) -> list[Rule]:
    """The rules that a module holds, or whose modules import from it."""
    name = module.partition("/")[2].replace("/", ".")
    own = [rule for rule in ALL_RULES if type(rule).__module__ == f"mbpack.rules.{name}"]
    if own:
        return own
    importing = {
        p.stem
        for p in (SOURCES / "rules").rglob("*.py")
        if re.search(rf"^from mbpack\.rules\.{name} import", p.read_text(), re.M)
    }
    return [rule for rule in ALL_RULES if type(rule).__module__.rpartition(".")[2] in importing]


def recorded() -> dict[tuple[str, str], Example]:
    return {(e.slug, e.origin): e for path in neighbours.FILES for e in neighbours.read(path)}


def pool(module: str, seed: int) -> list[Neighbour]:
    """Neighbours of the examples of a module's rules, those on record first."""
    rules, record = rules_of(module), recorded()
    known: list[Neighbour] = []
    fresh: list[Neighbour] = []
    chance = random.Random(f"{module} {seed}")
    each = max(100, MOST // max(1, len(rules)))
    for rule in rules:
        own: list[tuple[Example, str]] = []
        examples = {e.origin: e for e in bases(rule, EXAMPLES)}
        for origin, example in examples.items():
            held = record.get((rule.slug, origin))
            if held is not None and held.tree == example.tree and held.context == example.context:
                examples[origin] = example = held
            example.answers.setdefault("itself", example.answer("itself"))
            own += [(example, change) for change in _changes(example, chance) if change not in example.answers]
        for example in (e for (slug, _), e in record.items() if slug == rule.slug):
            known += [n for change in example.answers if (n := _neighbour(example, change, True)) is not None]
        for example, change in chance.sample(own, min(each, len(own))):
            if (found := _neighbour(example, change, False)) is not None:
                fresh.append(found)
    return known + fresh


def _changes(example: Example, chance: random.Random) -> Iterator[str]:
    yield "itself"
    singles = list(dict.fromkeys(candidates(example)))
    yield from (change for _, change in singles)
    pairs = [
        f"{b} & {a}" if key == "bridge" else f"{a} & {b}"
        for (key, a), (other, b) in (chance.sample(singles, 2) for _ in range(PAIRS * 2 if len(singles) > 1 else 0))
        if key != other and not key.startswith(f"{other}.") and not other.startswith(f"{key}.")
    ]
    yield from pairs[:PAIRS]


def _neighbour(example: Example, change: str, known: bool) -> Neighbour | None:
    try:
        run = neighbours.run_of(*example.changed(change))
        return Neighbour(example, change, run, answer_to(example.rule, run), known)
    except Exception:  # no such recipe in that release, evidence of an impossible kind
        return None


def hunt(module: str, seed: int) -> tuple[list[Neighbour], list[Mutant]]:
    """The neighbours worth adding, and the mutants no neighbour tells apart."""
    everything = pool(module, seed)
    known = sum(n.known for n in everything)
    living = swap.living_functions(SOURCES)
    swap.forget()
    gc.collect()
    gc.freeze()
    told: dict[Mutant, set[int]] = {}
    untold: list[Mutant] = []
    mutants = mutants_of(module)
    already = other = 0
    for mutant in mutants:
        bodies = swap.new_bodies(mutant.path, mutant.path.read_text(), mutant.source(), living)
        if bodies is None:
            other += 1
            continue
        places = _told_by(bodies, living, everything, known)
        if places is None:
            already += 1
        elif places:
            told[mutant] = places
        else:
            untold.append(mutant)
    gc.unfreeze()
    chosen = [everything[place] for place in _cover(told)]
    print(
        f"{module}: {len(mutants)} mutants, {other} at import, {already} told by the record, {len(told)} by {len(chosen)} more of"
        f" {len(everything) - known}, {len(untold)} by none",
        flush=True,
    )
    return chosen, untold


def _told_by(bodies: Any, living: Any, everything: Sequence[Neighbour], known: int) -> set[int] | None:
    """The places of the neighbours that are answered otherwise; None where one on record is."""
    back, out = os.pipe()
    number = os.fork()
    if number == 0:
        os.close(back)
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))
            swap.give(bodies, living)
            swap.forget()
            places: list[int] = []
            for place, n in enumerate(everything):
                try:
                    same = answer_to(n.example.rule, n.run) == n.answer
                except Exception:
                    same = False
                if not same:
                    places.append(place)
                    if place < known or len(places) > 400:
                        break
            os.write(out, json.dumps(places).encode())
        finally:
            os._exit(0)
    os.close(out)
    with os.fdopen(back, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(number, 0)
    places = json.loads(text or "[0]")  # one that ends without an answer is told apart by its end
    return None if places and places[0] < known else set(places)


def _cover(told: dict[Mutant, set[int]]) -> list[int]:
    """Few places, so that each mutant is told apart at one of them."""
    left, chosen = dict(told), []
    while left:
        votes: dict[int, int] = defaultdict(int)
        for place in itertools.chain.from_iterable(left.values()):
            votes[place] += 1
        best = max(votes, key=lambda place: (votes[place], -place))
        chosen.append(best)
        left = {mutant: places for mutant, places in left.items() if best not in places}
    return sorted(chosen)


def add(chosen: Sequence[Neighbour]) -> None:
    """Put neighbours on record."""
    order = {rule.slug: number for number, rule in enumerate(ALL_RULES)}
    by_topic: dict[str, list[Neighbour]] = defaultdict(list)
    for neighbour in chosen:
        by_topic[neighbour.example.rule.topic].append(neighbour)
    for topic, own in by_topic.items():
        path = FOLDER / f"{topic}.txt"
        examples = neighbours.read(path) if path.exists() else []
        held = {(e.slug, e.origin): e for e in examples}
        for example, change, _, said, _ in own:
            if (example.slug, example.origin) not in held:
                held[example.slug, example.origin] = example
                example.answers = {"itself": example.answers["itself"]}
                examples.append(example)
            held[example.slug, example.origin].answers[change] = said
        neighbours.write(path, sorted(examples, key=lambda example: order[example.slug]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", default=[], help="such as rules/parallel/topology")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--add", action="store_true", help="put the neighbours found on record")
    parser.add_argument("--untold", type=Path, help="where to list the mutants that no neighbour tells apart")
    args = parser.parse_args()
    lines: list[str] = []
    for module in args.module or [name for name in modules() if name.startswith("rules/") and rules_of(name)]:
        start = time.monotonic()
        chosen, untold = hunt(module, args.seed)
        for mutant in untold:
            lines.append("{}:{} {}\n    - {}\n    + {}".format(mutant.module, mutant.place[0], mutant.operator, *mutant.change()))
        if args.add:
            add(chosen)
        print(f"    {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        if args.untold:
            args.untold.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
