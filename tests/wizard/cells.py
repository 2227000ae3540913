"""Cells of the sweep: release x family x mode x workload x topology, drawn at random but reproducibly.

python tests/wizard/cells.py --cells 5000                    how many are written, refused and why, dirty
python tests/wizard/cells.py --rows 0.6 --written 100        written files as rows for the real start-up (JSON lines)
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mbpack.facts.classes import DatasetKind
from mbpack.facts.modes import MODES
from mbpack.facts.releases import R07, RELEASES, Release
from mbpack.wizard import catalog, sources
from mbpack.wizard.answers import DORA, LORA, PRETRAIN, SFT
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.plan import Plan, make_plan

WORKLOADS = (SFT, LORA, DORA, PRETRAIN)
TP, CP, PP, EP = (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8)
CHECKPOINT = "/checkpoints/base"
LENGTHS = (2048, 4096, 8192, 16384, 32768, 131072)


@dataclass
class Tally:
    """What became of the cells. ``dirty``: written, but the doctor has something to say."""

    cells: int = 0
    written: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    carried: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    dirty: list[tuple[str, str]] = field(default_factory=list)
    recipes: set[str] = field(default_factory=set)


def modes_for(release: Release, recipe: str) -> list[str]:
    """The modes worth asking for: those that the release and the recipe's data do not exclude from the start, and auto."""
    kind = Draft({"bridge": release.name, "recipe": recipe}).recipe_kind
    if kind is DatasetKind.PRETRAIN:
        return ["auto", "none"]
    later = release >= R07
    if kind is DatasetKind.GPT_SFT:
        return ["auto", "none", "offline", "offline", *(["in_batch", "global_batch"] if later else [])]
    return ["auto", "none", "in_batch", "in_batch", *(["energon"] if later else [])]


def draw(rng: random.Random, release: Release | None = None) -> dict[str, Any]:
    """One cell: the answers somebody might give. Most cells make sense; some must be refused."""
    release = release or rng.choice(RELEASES)
    family = rng.choice(catalog.families(release.name))
    workload = rng.choice(WORKLOADS)
    answers: dict[str, Any] = {"bridge": release.name, "workload": workload}
    found = catalog.matching(release, workload, family)
    if not found:
        if rng.random() < 0.9:
            return draw(rng, release)
        return {**answers, "family": family}
    recipe = rng.choice(found)
    answers["recipe"] = recipe.name
    sensible = rng.random() < 0.8
    answers["packing"] = rng.choice(modes_for(release, recipe.name) if sensible else ["auto", *MODES])
    answers["tp"], answers["cp"], answers["pp"] = rng.choice(TP), rng.choice(CP), rng.choice(PP)
    answers["gpus"] = answers["tp"] * answers["cp"] * answers["pp"] * rng.choice((1, 2, 4, 8))
    if rng.random() < 0.3:
        answers["sp"] = rng.random() < 0.5
    if "num_moe_experts" in " ".join(recipe.values) and rng.random() < 0.5:
        answers["ep"] = rng.choice(EP)
    if rng.random() < 0.6:
        choices = sources.choices(Draft({"bridge": release.name, "recipe": recipe.name}))
        answers["data"] = rng.choice(choices if sensible else ("jsonl", "chat", "hf", "energon", "indexed"))
        if answers["packing"] == "energon" and "energon" in choices:
            answers["data"] = "energon"
    if rng.random() < 0.3:
        answers["seq_length"] = rng.choice(LENGTHS)
    if rng.random() < 0.2:
        answers["cuda_graphs"] = rng.choice(("mlp", "full_iteration", "attn"))
    if rng.random() < 0.3:
        answers["launcher"] = "run_recipe"
    return answers


def reason_kind(reason: str) -> str:
    """A refusal without its names and numbers, for counting."""
    code = re.search(r"\[([A-Z]{3}\d{3})\]", reason)
    if code:
        return code[1]
    return re.sub(r"\b\w*_config\b|\b[\w.]*\d[\w.]*\b|(?<=family )\w+", "#", reason.partition(";")[0])[:90]


def sweep(count: int, seed: int = 0) -> Tally:
    """Run cells through the wizard."""
    rng, tally = random.Random(seed), Tally()
    for _ in range(count):
        answers = draw(rng)
        tally.cells += 1
        try:
            plan = make_plan(Draft(answers))
        except Refused as refused:
            kind = reason_kind(refused.reason)
            tally.refused[kind] += 1
            tally.examples.setdefault(kind, (refused.reason, answers))
            continue
        tally.written[plan.job.mode.name] += 1
        tally.recipes.add(f"{plan.draft.release}/{plan.draft.recipe.name}")
        tally.carried.update(one.finding.rule.code for one in plan.accepted)
        left = [one for one in plan.result.findings if one.outcome.severity != "info"]
        if left or plan.result.verdict != "accepted":
            tally.dirty.append((plan.text, f"{plan.result.verdict} {[one.rule.code for one in left]}"))
    return tally


def written(release: Release, count: int, seed: int = 0) -> Iterator[tuple[dict[str, Any], Plan]]:
    """Written files of one release, recipe by recipe as evenly as chance allows."""
    rng, used = random.Random(f"{release}{seed}"), Counter[str]()
    done = 0
    while done < count:
        answers = draw(rng, release)
        if used[answers.get("recipe", "")] > 2 * count // 50 + 1:
            continue
        answers["checkpoint"] = CHECKPOINT
        try:
            plan = make_plan(Draft(answers))
        except Refused:
            continue
        used[plan.draft.recipe.name] += 1
        done += 1
        yield answers, plan


def rows(release: Release, count: int, seed: int, as_overrides: bool) -> Iterator[dict[str, Any]]:
    """Written files as rows of the real start-up's judge."""
    from mbpack.wizard.key_value import arguments

    for number, (answers, plan) in enumerate(written(release, count, seed)):
        row = {"id": f"{release}-{number}", "recipe": plan.draft.recipe.name, "gpus": plan.draft.get("gpus")}
        row["answers"] = answers
        if as_overrides:
            row["overrides"] = arguments(plan)
        else:
            row["yaml"] = plan.text
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", metavar="RELEASE")
    parser.add_argument("--written", type=int, default=100)
    parser.add_argument("--overrides", action="store_true", help="rows hold KEY=VALUE arguments instead of YAML")
    options = parser.parse_args()
    if options.rows:
        release = next(one for one in RELEASES if one.name == options.rows)
        for row in rows(release, options.written, options.seed, options.overrides):
            print(json.dumps(row))
        return
    tally = sweep(options.cells, options.seed)
    print(f"cells {tally.cells}, written {sum(tally.written.values())} {dict(tally.written)}, on {len(tally.recipes)} recipes")
    print(f"refused {sum(tally.refused.values())}")
    for kind, number in tally.refused.most_common():
        print(f"  {number:5} {kind}\n        e.g. {tally.examples[kind][0][:150]}")
    print(f"carried as ignore directives {dict(tally.carried.most_common())}")
    print(f"dirty {len(tally.dirty)}")
    for text, why in tally.dirty[:3]:
        print(why, text, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
