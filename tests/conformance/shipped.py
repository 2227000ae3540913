"""What is said of the recipes that Megatron-Bridge ships for fine-tuning, and of five topologies for each.

python -m tests.conformance.shipped                       every release: shares of each code, errors and warnings with their proof
python -m tests.conformance.shipped --release 0.4 --gpus 1024
python -m tests.conformance.shipped --recipes             each error and warning with its recipe
python -m tests.conformance.shipped --write               the table of README.md anew

The recipes train as they are shipped, and the topologies keep what the documentation asks for: samples padded to the
multiple, the loss per token, the widths of rows. So every error here is true of its recipe or a false alarm.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mbpack.config.context import Given
from mbpack.config.overrides import parse_overrides
from mbpack.engine.doctor import Request, judge
from mbpack.facts import recipes
from mbpack.facts.formulas import lcm, pad_multiple, round_up
from mbpack.facts.keys import SPECS, path_in
from mbpack.facts.proofs import READ, SHOWN, proof_of
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import schema
from mbpack.rules.catalogue import BY_NAME

README = Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- shipped: python -m tests.conformance.shipped --write -->\n", "<!-- end of the shipped recipes -->\n"
LINES = ("0.3", "0.4", "0.5", "0.6", "0.7")
AS_SHIPPED = "as shipped"
OFTEN = 0.6
#: Sizes that a variant sets; the others are the recipe's.
VARIANTS: dict[str, dict[str, int]] = {
    AS_SHIPPED: {},
    "CP 2": {"cp": 2},
    "CP 4 x TP 4": {"cp": 4, "tp": 4},
    "PP 4": {"pp": 4},
    "TP 8": {"tp": 8},
    "PP 2 x CP 2": {"pp": 2, "cp": 2},
}
_FINE_TUNING = re.compile(r"sft|peft|lora|dora|finetun")
_KEYS = {
    "tp": "model.tensor_model_parallel_size",
    "pp": "model.pipeline_model_parallel_size",
    "cp": "model.context_parallel_size",
    "ep": "model.expert_model_parallel_size",
}
_EXPERT_TP = "model.expert_tensor_parallel_size"


class Said(NamedTuple):
    """One error or warning: of which recipe in which topology."""

    variant: str
    recipe: str
    code: str
    severity: str
    consequence: str


class Survey(NamedTuple):
    """How many were judged, on how many of them a code fires (notes too), and each error and warning.

    `judged` and `shares` tell the recipes `as shipped` from their `variants`.
    """

    judged: Counter[str]
    shares: Counter[tuple[str, str]]
    said: list[Said]


def of_release(release: str) -> list[Recipe]:
    """The recipes for fine-tuning that a release ships and that can be called."""
    found = (recipes.find(release, name) for name in recipes.names(release) if _FINE_TUNING.search(name))
    return [recipe for recipe in found if recipe is not None]


def variant(recipe: Recipe, sizes: dict[str, int], gpus: int | None) -> tuple[list[str], int]:
    """The arguments that give a recipe these sizes, as the documentation aligns it, and the number of GPUs for it."""
    own = {short: _whole(recipe.value(key)) or 1 for short, key in _KEYS.items()}
    tp, pp, cp = (sizes.get(short, own[short]) for short in ("tp", "pp", "cp"))
    unit = lcm(tp * pp * cp, (_whole(recipe.value(_EXPERT_TP)) or tp) * own["ep"] * pp)
    world = round_up(gpus or max(recipe.gpus or 8, unit), unit)
    values: dict[str, object] = {}
    if sizes:
        values = {_KEYS[short]: size for short, size in sizes.items()}
        values["model.sequence_parallel"] = tp > 1
        if "pp" in sizes:
            values["model.virtual_pipeline_model_parallel_size"] = None
            values["model.pipeline_model_parallel_layout"] = None
        if cp > 1:
            values |= {"model.calculate_per_token_loss": True, "ddp.average_in_collective": False}
        if recipe.holds(SPECS):
            line = next(one for one in RELEASES if one.name == recipe.release)
            values[path_in(line, f"{SPECS}.pad_seq_to_mult")] = pad_multiple(tp, cp, tp > 1).value
            inside = isinstance(recipe.value("dataset.dataset_kwargs"), Mapping)
            values["dataset.dataset_kwargs" + ".pad_to_max_length" * inside] = True if inside else "{pad_to_max_length: true}"
    batch, micro = (_whole(recipe.value(f"train.{name}_batch_size")) for name in ("global", "micro"))
    if batch and micro and batch % (micro * (world // (tp * pp * cp))):
        values["train.global_batch_size"] = round_up(batch, micro * (world // (tp * pp * cp)))
    return [f"{_place(recipe, key)}={_yaml(value)}" for key, value in values.items()], world


def _place(recipe: Recipe, key: str) -> str:
    """Where the recipe's model holds a field: models of 0.6 and later may hold it in a nested configuration."""
    known, cls = schema(recipe.release), recipe.model_class or ""
    section, _, field = key.partition(".")
    nested = section == "model" and known.transformer_class(cls) and field not in (known.fields(cls) or {})
    return f"model.transformer.{field}" if nested else key


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _yaml(value: object) -> str:
    return "null" if value is None else str(value).lower()


def survey(release: str, gpus: int | None = None) -> Survey:
    """Judges every recipe of a release in every topology.

    `gpus` is the number for all of them, rounded up to what the topology divides; 0 leaves it open, None takes the one of
    the recipe's name, else what the topology needs.
    """
    shares: Counter[tuple[str, str]] = Counter()
    said = []
    judged: Counter[str] = Counter()
    for recipe in of_release(release):
        for name, sizes in VARIANTS.items():
            arguments, world = variant(recipe, sizes, gpus)
            given = Given(bridge=release, recipe=recipe.name, gpus=None if gpus == 0 else world, launcher="script")
            result = judge(Request((), given, overrides=parse_overrides(arguments)))
            kind = name if not sizes else "variants"
            judged[kind] += 1
            shares.update({(kind, finding.rule.code) for finding in result.findings})
            for finding in result.findings:
                if finding.outcome.severity != "info":
                    said.append(Said(name, recipe.name, finding.rule.code, finding.outcome.severity, finding.outcome.consequence))
    return Survey(judged, shares, said)


def proof_in_words(code: str, consequence: str, releases: Iterable[str]) -> str:
    """How the consequence of a code is known; a demonstration counts for the releases that it ran on."""
    if consequence in ("rejected", "note"):
        return "start-up" if consequence == "rejected" else ""
    found = proof_of(code)
    if found is None or found.kind != SHOWN:
        return "" if found is None else found.kind
    return SHOWN if set(releases) & {one[:3] for one in found.releases} else READ


def markdown(surveys: dict[str, Survey]) -> str:
    """Errors and warnings with their proof: in each cell how many of the shipped recipes and of their variants."""
    cells: dict[tuple[str, str, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for release, found in surveys.items():
        for said in found.said:
            kind = AS_SHIPPED if said.variant == AS_SHIPPED else "variants"
            cells[said.severity, said.code, said.consequence][release][kind] += 1
    judged = [f"{release} ({one.judged[AS_SHIPPED]} + {one.judged['variants']:,})" for release, one in surveys.items()]
    lines = [f"| severity | rule | what happens | known by | {' | '.join(judged)} |", "|---" * (4 + len(judged)) + "|"]
    for (severity, code, consequence), by_release in sorted(cells.items()):
        counts = [by_release.get(release, Counter()) for release in surveys]
        texts = [f"{one[AS_SHIPPED]} + {one['variants']}" if one else "" for one in counts]
        name = f"{code} {BY_NAME[code].slug}"
        lines.append(
            f"| {severity} | {name} | {consequence} | {proof_in_words(code, consequence, by_release)} | {' | '.join(texts)} |"
        )
    return "\n".join(lines) + "\n"


def shares(surveys: dict[str, Survey], codes: Iterable[str]) -> str:
    """On how many of the variants codes fire, notes included."""
    return "".join(
        f"{code} fires on "
        + ", ".join(f"{one.shares['variants', code]} of {one.judged['variants']} ({release})" for release, one in surveys.items())
        + "\n"
        for code in codes
    )


def frequent(surveys: dict[str, Survey], least: float) -> str:
    """Codes that fire on more than a share of the shipped recipes of a release; "(routine)" where only --verbose shows it."""
    lines = []
    for release, one in surveys.items():
        for (kind, code), times in one.shares.most_common():
            if kind == AS_SHIPPED and times > least * one.judged[kind]:
                quiet = " (routine)" if BY_NAME[code].routine else ""
                lines.append(f"{release}: {code} {BY_NAME[code].slug} {times} of {one.judged[kind]}{quiet}\n")
    return "".join(lines)


def readme(table: str) -> str:
    """README.md with this table."""
    before, _, rest = README.read_text().partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--release", choices=LINES, action="append", help="all of them where none is named")
    parser.add_argument(
        "--gpus", type=int, help="for every recipe, 0 for not known; left out, what its name or its topology asks for"
    )
    parser.add_argument("--recipes", action="store_true", help="each error and warning with its recipe")
    parser.add_argument("--write", action="store_true", help="write the table of README.md")
    given = parser.parse_args()
    surveys = {release: survey(release, given.gpus) for release in given.release or LINES}
    if given.write:
        README.write_text(readme(markdown(surveys)))
    if given.recipes:
        for release, one in surveys.items():
            for said in one.said:
                print(f"{release}\t{said.recipe}\t{said.variant}\t{said.severity}\t{said.code}\t{said.consequence}")
    print(markdown(surveys))
    print(shares(surveys, ("PPL102", "DAT114")))
    print(f"More than {OFTEN:.0%} of the shipped recipes of a release:")
    print(frequent(surveys, OFTEN))
    return 0


if __name__ == "__main__":
    sys.exit(main())
