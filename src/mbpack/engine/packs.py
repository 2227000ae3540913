"""Judge packed data that somebody points at, with or without the configuration that will use them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mbpack.config.context import Context, Given, resolve_context
from mbpack.config.document import Document, parse
from mbpack.config.evidence import Evidence
from mbpack.config.in_effect import DATA_SEQ, TRAIN_PACKS
from mbpack.config.run import Run
from mbpack.config.settings import Settings
from mbpack.engine.check import Selection, check
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS, path_in, specs_target
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import R06
from mbpack.facts.schema import schema
from mbpack.inspect import collect, look_at
from mbpack.inspect.metadata import read_metadata
from mbpack.inspect.targets import Target
from mbpack.rules.base import Finding

#: What packs on disk can show. The rest of a configuration is the doctor's.
ABOUT_PACKS = (
    "align/pad-seq-to-mult-cp",
    "align/pack-size-multiple",
    "data/pad-cu-requires-metadata",
    "data/metadata-is-list",
    "data/metadata-append",
    "data/npy-deprecated",
    "data/parquet-columns",
    "data/row-invariants-not-checked",
    "data/row-longer-than-pack",
    "data/stale-packs",
    "data/pack-path-mismatch",
    "data/fingerprint-repack",
    "data/pad-loss-legacy-prompt",
    "data/pack-load-exit",
    "data/pyarrow-int8",
    "data/blend-glob",
    "graph/metadata-stale",
    "gbs/not-enough-rows",
    "gbs/eval-not-enough-rows",
    "gbs/tokens-per-step",
    "loss/mask-density",
    "loss/zero-loss-rows",
)
#: Without a configuration there is nothing the names could disagree with.
_CONFIGURED_ONLY = ("data/pack-path-mismatch",)
_PATHS = {"training": TRAIN_PACKS, "validation": f"{SPECS}.packed_val_data_path"}
_CONTAINERS = {True: "GPTSFTDatasetConfig", False: "FinetuningDatasetConfig"}

Progress = Callable[[int], None]


class Looking(Struct, frozen=True):
    """How to look: the end-of-sequence token (None to find it), whom to tell."""

    eos: int | None = None
    progress: Progress | None = None


class Intended(Struct, frozen=True):
    """What the packs are meant for, as far as it was said; None is unknown."""

    tp: int | None = None
    cp: int | None = None
    sp: bool | None = None
    gbs: int | None = None


def examine_packs(target: Target, flags: Given, intended: Intended, looking: Looking) -> Result:
    """Judge packs by themselves: against their names, their metadata and the topology that was named.

    Raises:
        ContextError: the release is not known.
    """
    context = resolve_context(flags, Given(), ())
    stand_in = _stand_in(context, target, intended)
    settings = Settings(context.version, schema(context.version.release.name, context.version.patch), (), stand_in, environ={})
    run = Run(settings, context, _look(target, context, looking))
    result = Result(target.label, context, ())
    names = [name for name in ABOUT_PACKS if name not in _CONFIGURED_ONLY]
    if intended.cp is None:
        names = [name for name in names if not name.startswith("align/")]
    if intended.gbs is None:
        names = [name for name in names if not name.startswith("gbs/")]
    return check(run, result, Selection(tuple(names)))


def examine_configured(
    document: Document, flags: Given, target: Target | None, looking: Looking, path: str | None = None
) -> Result:
    """Judge the packs of a configuration, or other packs as if the configuration named them.

    Raises:
        ContextError: the context cannot be used.
    """

    def look(run: Run) -> Evidence:
        if target is None:
            return collect(run, full=True, eos=looking.eos, progress=looking.progress)
        seen, around = _look(target, run.context, looking), collect(run)
        return replace(around, packs=seen.packs, metadata_file=seen.metadata_file or around.metadata_file)

    named = _naming(target, resolve_context(flags, Given(), [document])) if target is not None else None
    documents = [document, named] if named is not None else [document]
    result = judge(Request(documents, flags, selection=Selection(ABOUT_PACKS), path=path, look=look))
    result.documents = [document]
    result.findings = [_unplaced(finding, named) for finding in result.findings]
    return result


def _look(target: Target, context: Context, looking: Looking) -> Evidence:
    packs = {}
    for split, path in target.paths.items():
        seen = look_at(
            path,
            split=split,
            release=context.version.release,
            full=True,
            eos=looking.eos,
            progress=looking.progress,
        )
        if seen is not None:
            packs[split] = seen
    return Evidence(packs=packs, metadata_file=read_metadata(target.metadata) if target.metadata else None)


def _stand_in(context: Context, target: Target, intended: Intended) -> Recipe:
    """The configuration the names of the packs speak of, in the place of a recipe."""
    release = context.version.release
    specs: dict[str, Any] = {
        "_target_": specs_target(release),
        "packed_sequence_size": target.size if target.size is not None or release >= R06 else 1 << 30,
        "pad_seq_to_mult": target.multiple,
        **{key.rpartition(".")[2]: target.paths.get(split) for split, key in _PATHS.items()},
        "packed_metadata_path": target.metadata,
    }
    values: dict[str, Any] = {
        OFFLINE_SWITCH: True,
        SPECS: specs,
        **{f"{SPECS}.{name}": value for name, value in specs.items()},
        DATA_SEQ: target.size,
        "dataset.do_validation": "validation" in target.paths,
        "model.context_parallel_size": intended.cp or 1,
        "model.tensor_model_parallel_size": intended.tp or 1,
        "model.sequence_parallel": bool(intended.sp),
        "train.global_batch_size": intended.gbs,
    }
    return Recipe(
        name="packed data",
        release=release.name,
        module=None,
        values=values,
        likely=frozenset(),
        guessed=frozenset(),
        dataset_class=_CONTAINERS[release >= R06],
        model_class="GPTModelProvider",
        hf_id=None,
        peft=None,
        gpus=None,
        perf=False,
        complete=True,
        unavailable=None,
    )


def _naming(target: Target, context: Context) -> Document:
    """A layer that names the packs, on top of the configuration."""
    given: dict[str, Any] = {key: target.paths[split] for split, key in _PATHS.items() if split in target.paths}
    if target.metadata is not None:
        given[f"{SPECS}.packed_metadata_path"] = target.metadata
    tree: dict[str, Any] = {}
    for key, value in given.items():
        *owners, name = path_in(context.version.release, key).split(".")
        at = tree
        for owner in owners:
            at = at.setdefault(owner, {})
        at[name] = os.fspath(value).replace("$", "?")
    import json  # `inspect` alone comes here

    return parse(json.dumps(tree))


def _unplaced(finding: Finding, named: Document | None) -> Finding:
    """A finding without a place in a layer that nobody wrote."""
    if named is None or finding.setting.document is not named:
        return finding
    return replace(finding, setting=finding.setting._replace(item=None, document=None))
