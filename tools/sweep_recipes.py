"""The doctor over every recipe that Megatron-Bridge ships, by name: ``python tools/sweep_recipes.py [RELEASE ...]``.

An error on a shipped recipe is a real defect of the recipe or a false alarm, so the list is read after every change of
rules. A recipe runs at the GPU count in its name or data, else at the smallest count that its topology and batch fit.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import defaultdict
from collections.abc import Iterator

from mbpack.config.context import Given
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.facts import recipes

RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
#: Findings that only say that the count of GPUs is too small or does not divide.
SIZE = frozenset({"topo/world-divisible", "gbs/divisible", "gbs/eval-divisible", "topo/expert-world-divisible"})
PARALLEL = ("tensor_model", "pipeline_model", "context", "expert_model", "expert_tensor")
#: Data parallel sizes that are tried, on top of what the topology takes.
REPLICAS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def main() -> None:
    """Print the errors per rule, with the recipes that have them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", default=RELEASES)
    parser.add_argument("--launcher", default="run_recipe", choices=("run_recipe", "script"))
    options = parser.parse_args()
    found: dict[str, list[str]] = defaultdict(list)
    verdicts: dict[str, int] = defaultdict(int)
    for release in options.releases:
        for name in recipes.names(release):
            result = _judged(release, name, options.launcher)
            verdicts[result.verdict] += 1
            for slug in {f.rule.slug for f in result.findings if f.outcome.severity == "error"}:
                found[slug].append(f"{release} {name}")
    print(f"{sum(verdicts.values())} recipes: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    for slug, names in sorted(found.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(names):>5}  {slug}: {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}")


def _judged(release: str, name: str, launcher: str) -> Result:
    """The answer at the first count that fits, or at the last one tried."""
    result: Result | None = None
    for gpus in _counts(release, name):
        result = judge(Request([], Given(release, recipe=name, gpus=gpus, launcher=launcher)))
        if not SIZE.intersection(finding.rule.slug for finding in result.findings):
            break
    assert result is not None
    return result


def _counts(release: str, name: str) -> Iterator[int]:
    in_name = re.search(r"_(\d+)gpu", name)
    recipe = recipes.find(release, name)
    if in_name is not None:
        yield int(in_name[1])
    elif recipe is not None and recipe.gpus:
        yield recipe.gpus
    elif recipe is not None:
        tp, pp, cp, ep, etp = (recipe.value(f"model.{name}_parallel_size") or 1 for name in PARALLEL)
        smallest = math.lcm(tp * pp * cp, pp * ep * (etp if ep > 1 else 1))
        yield from (smallest * replicas for replicas in REPLICAS)


if __name__ == "__main__":
    main()
