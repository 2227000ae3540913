"""Whether a configuration fits its GPUs, what would save memory, and which topologies fit and pass the doctor's rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mbpack.config.overrides import Override, OverrideProblem, parse_overrides
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Unknown, WrongKind
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.facts.gpus import GPUS, Gpu, gpu_in_recipe
from mbpack.facts.shapes import Shape
from mbpack.memory import verdict
from mbpack.memory.knobs import Knob, knobs
from mbpack.memory.reading import Described, describe
from mbpack.memory.search import Candidate, candidates, longest
from mbpack.memory.setup import Setup
from mbpack.memory.sizes import NotModelled
from mbpack.memory.verdict import Estimate

#: The GPU that is assumed where neither the command nor the recipe's name says one.
USUAL_GPU = GPUS["h100-80gb"]
#: Topologies shown, and candidates that the doctor judges at most for them.
SHOWN, TRIED = 4, 24


class Wanted(Struct, frozen=True):
    """What a command asks for. `gpus`, `length`: instead of the configuration's; `shape`: of the user's config.json."""

    gpus: int | None = None
    gpu: Gpu | None = None
    length: int | None = None
    shape: Shape | None = None
    search: bool = True
    max_length: bool = False


class Fitted(Struct, frozen=True):
    """The answer. `result`: what the doctor says of the configuration as it is; `longest`: tokens, None where not asked."""

    result: Result
    described: Described
    estimate: Estimate
    gpu: Gpu
    gpu_assumed: bool
    knobs: tuple[Knob, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    longest: int | None = None


def fit(request: Request, wanted: Wanted) -> Fitted:
    """Answer for one configuration.

    Raises:
        NotModelled: no estimate is possible; the message says why.
        ContextError: a release or recipe that does not exist.
    """
    if wanted.gpus is not None:
        request = replace(request, flags=replace(request.flags, gpus=wanted.gpus))
    result = judge(request)
    run = result.run
    if run is None:
        first = result.findings[0].message if result.findings else "nothing was read"
        raise NotModelled(f"no configuration to estimate: {first}")
    described = describe(run, wanted.gpus, wanted.length, wanted.shape)
    gpu, assumed = gpu_of(run, wanted.gpu)
    estimate = verdict.judge(described.setup, gpu, described.unsure)
    found = Fitted(result, described, estimate, gpu, assumed)
    if wanted.search:
        found = replace(
            found,
            knobs=tuple(knobs(described.setup, gpu.generation)),
            candidates=tuple(islice(accepted(request, run, described, gpu, wanted), SHOWN)),
        )
    if wanted.max_length:
        found = replace(found, longest=longest(described.setup, gpu, row_multiple(described.setup)))
    return found


def gpu_of(run: Run, given: Gpu | None = None) -> tuple[Gpu, bool]:
    """The GPU of a run and whether it is an assumption: the one given, the context's, that of the recipe's name, else the usual."""
    recipe = run.settings.recipe
    named = given or GPUS.get(run.context.gpu or "") or (gpu_in_recipe(recipe.name) if recipe is not None else None)
    return (named or USUAL_GPU), named is None


def row_multiple(setup: Setup) -> int:
    """Tokens that a row is a multiple of: 256, or what the topology divides if that is more."""
    need = (2 * setup.cp if setup.cp > 1 else 1) * (setup.tp if setup.gathers else 1)
    return need * -(-256 // need)


def accepted(request: Request, run: Run, described: Described, gpu: Gpu, wanted: Wanted) -> Iterator[Candidate]:
    """Candidates that fit and that the doctor refuses no more than the configuration itself, cheapest first."""
    batch = _batch(run)
    before = _refusals(judge(request))
    for candidate in islice(candidates(described.setup, gpu, batch, described.unsure), TRIED):
        settings = {**candidate.settings, **_companions(run, candidate.setup), **_length(run, wanted.length)}
        settings = {key: value for key, value in settings.items() if not _same(run, key, value)}
        tried = replace(request, overrides=(*request.overrides, *written(settings)))
        if _refusals(judge(tried)) <= before:
            yield replace(candidate, settings=settings)


def written(settings: Mapping[str, Any]) -> list[Override | OverrideProblem]:
    """Settings as KEY=VALUE arguments."""
    return parse_overrides([argument(key, value) for key, value in settings.items()])


def argument(key: str, value: Any) -> str:
    """One setting as a KEY=VALUE argument."""
    from json import dumps

    return f"{key}={dumps(value)}"


def _refusals(result: Result) -> frozenset[str]:
    return frozenset(finding.rule.code for finding in result.findings if finding.outcome.severity == "error")


def _batch(run: Run) -> int | None:
    try:
        size = run.gbs
    except (Unknown, WrongKind):
        return None
    return size if size.__class__ is int and size > 0 else None


def _length(run: Run, length: int | None) -> dict[str, Any]:
    if length is None:
        return {}
    found: dict[str, Any] = {"dataset.seq_length": length, "model.seq_length": length}
    if run.maybe("dataset.offline_packing_specs.packed_sequence_size") is not None:
        found["dataset.offline_packing_specs.packed_sequence_size"] = length
    return found


def _companions(run: Run, setup: Setup) -> dict[str, Any]:
    """What goes with context parallelism in fine-tuning: the loss by token, and the padding multiple of packed samples."""
    found: dict[str, Any] = {}
    try:
        finetuning = run.finetuning
    except (Unknown, WrongKind):
        finetuning = False
    if setup.cp > 1 and finetuning:
        found |= {"model.calculate_per_token_loss": True, "ddp.average_in_collective": False}
    if run.maybe("dataset.offline_packing_specs.pad_seq_to_mult") is not None:
        from mbpack.facts.formulas import pad_multiple

        found["dataset.offline_packing_specs.pad_seq_to_mult"] = pad_multiple(setup.tp, setup.cp, setup.gathers, None).value
    return found


def _same(run: Run, key: str, value: Any) -> bool:
    """Whether the configuration says so already."""
    setting = run.settings.peek(key)
    if setting is None:  # nobody knows what a recipe holds there, and there is nothing to take back
        return value is None
    return setting.value == value or (value is None and setting.value is ABSENT)
