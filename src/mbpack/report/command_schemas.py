"""The published JSON Schemas, by name: one for each report of a command, and what a version promises.

Within one `schema_version` fields are only added, and words to lists of words; a field that changes its meaning or goes makes a
new version. What is optional today may stay away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mbpack.report.memory_schema import fit_schema
from mbpack.report.report_schema import file_schema, of_files, report_schema
from mbpack.report.schema_parts import (
    ANY,
    NUMBER,
    TEXT,
    WHOLE,
    YES_NO,
    array,
    mapping,
    maybe,
    record,
    root,
    word,
    words_or_more,
)

_VERSION = 1


def _command(name: str, optional: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """A report that names its command."""
    schema = root(name, _VERSION, {"mbpack": TEXT, "command": {"const": name}, **parts})
    schema["properties"].update(optional or {})
    return schema


def explain_schema() -> dict[str, Any]:
    """`mbpack explain --format json`."""
    rule = record(
        code=TEXT,
        slug=TEXT,
        topic=TEXT,
        releases=record(first=TEXT, last=TEXT),
        refused_by_upstream=YES_NO,
        title=TEXT,
        text=TEXT,
        bad=array(TEXT),
        good=array(TEXT),
        notes=TEXT,
        upstream=array(TEXT),
        url=TEXT,
    )
    return _command(
        "explain",
        topic=maybe(TEXT),
        kind=words_or_more(
            ["overview", "rule", "pitfall", "mode", "releases", "key", "number", "family", "topic", "adapter", "recipe"]
        ),
        calculated=array(TEXT),
        rule=maybe(rule),
        text=TEXT,
    )


def init_schema() -> dict[str, Any]:
    """`mbpack init --format json`."""
    context = record(bridge=TEXT, recipe=TEXT, gpus=WHOLE, launcher=TEXT, step=TEXT)
    return _command(
        "init",
        path=maybe(TEXT),
        written=YES_NO,
        form=word("yaml", "overrides", "sbatch"),
        context=context,
        mode=TEXT,
        recommended=YES_NO,
        reasons=array(TEXT),
        other_modes=array(record(mode=TEXT, why_not=TEXT)),
        derived=array(record(name=TEXT, value=TEXT, because=TEXT)),
        notes=array(TEXT),
        accepted=array(record(code=TEXT, reason=TEXT)),
        answers=mapping(ANY),
        settings=mapping(ANY),
        text=TEXT,
        next=array(record(what=TEXT, shell=TEXT)),
    )


def migrate_schema() -> dict[str, Any]:
    """`mbpack migrate --format json`."""
    said = {name: array(TEXT) for name in ("changed", "to_decide", "behaves_differently")}
    one = record(
        path=maybe(TEXT),
        source=TEXT,
        target=TEXT,
        **said,
        written=maybe(TEXT),
        text=maybe(TEXT),
        arguments=array(TEXT),
        diff=TEXT,
    )
    return _command("migrate", files=array(one))


def list_schema() -> dict[str, Any]:
    """`mbpack list --format json`: what an entry holds depends on its kind."""
    entries = {
        "recipes": record(name=TEXT, workload=TEXT, family=maybe(TEXT), gpus=maybe(WHOLE), model=maybe(TEXT)),
        "families": record(name=TEXT, modality=TEXT, recipes=WHOLE, title=TEXT),
        "rules": record(code=TEXT, slug=TEXT, releases=TEXT, summary=TEXT),
        "keys": record(key=TEXT, type=maybe(TEXT)),
        "releases": record(name=TEXT, newest_patch=TEXT, recipes=WHOLE, default=YES_NO),
    }
    schema = root("list", _VERSION, {"kind": word(*entries), "bridge": TEXT, "entries": {"type": "array"}})
    schema["oneOf"] = [{"properties": {"kind": {"const": kind}, "entries": array(one)}} for kind, one in entries.items()]
    return schema


def plan_schema() -> dict[str, Any]:
    """`mbpack plan --format json`."""
    rows = record(path=TEXT, kind=TEXT, rows=WHOLE, tokens=WHOLE)
    data = record(
        rows=WHOLE,
        tokens=WHOLE,
        counted=TEXT,
        mean=NUMBER,
        p50=NUMBER,
        p99=NUMBER,
        max=WHOLE,
        sources=array(rows),
        notes=array(TEXT),
    )
    sizes = dict.fromkeys(("seed", "tp", "pp", "cp"), WHOLE)
    open_sizes = {name: maybe(WHOLE) for name in ("eval_cp", "dp", "token_slots", "gbs", "max_single")}
    setup = record(
        bridge=TEXT,
        schema=word("chat", "prompt-completion"),
        **sizes,
        **open_sizes,
        seeded=YES_NO,
        sp=YES_NO,
        pad_multiple=record(value=WHOLE, because=TEXT),
        assumed=array(TEXT),
    )
    memory = record(recipe=TEXT, gpu=TEXT, gpus=WHOLE, usable_gib=NUMBER, longest_row_tokens=WHOLE, packs=array(_FITS))
    return root(
        "plan",
        _VERSION,
        {
            "mbpack": TEXT,
            "data": data,
            "setup": setup,
            "units": mapping(TEXT),
            "candidates": array(_candidate()),
            "recommendation": record(pack_size=maybe(WHOLE), reasons=array(TEXT)),
            "memory": maybe(memory),
            "simulations": array(_SIMULATION),
        },
    )


_FITS = record(pack_size=WHOLE, low=NUMBER, likely=NUMBER, high=NUMBER, verdict=TEXT, fits=YES_NO)
#: What else a simulation says depends on its mode.
_SIMULATION = {
    **record(mode=word("in_batch", "energon", "global_batch", "dynamic_cp")),
    "additionalProperties": True,
}


def _candidate() -> dict[str, Any]:
    """One pack length; what could not be computed is null."""
    counts = {
        name: maybe(WHOLE) for name in ("microbatches", "packs", "ffd_packs", "lower_bound", "boundary_width", "steps_per_epoch")
    }
    shares = {name: maybe(NUMBER) for name in ("bubble", "fill", "real_fill", "padding", "alignment", "dynamic_width")}
    lost = record(rows=WHOLE, tokens=WHOLE, share=NUMBER)
    return record(
        pack_size=WHOLE,
        row_cap=WHOLE,
        seed=maybe(WHOLE),
        pad_multiple=WHOLE,
        gbs=WHOLE,
        token_slots=WHOLE,
        **counts,
        **shares,
        gbs_note=maybe(TEXT),
        metadata=maybe({"type": "object"}),
        packs_range=maybe(array(WHOLE)),
        samples_per_pack=maybe(record(mean=NUMBER, max=WHOLE)),
        truncated=lost,
        dropped=lost,
        kept_share=NUMBER,
        steps_num_epochs=maybe(WHOLE),
        attention=maybe(record(pairs=NUMBER, share=NUMBER)),
        crash=maybe({"type": "object"}),
        warnings=array({"type": "object"}),
        estimates=mapping(TEXT),
    )


def inspect_schema() -> dict[str, Any]:
    """`mbpack inspect --format json`: the doctor's report, with what the packs hold."""
    packs = record(
        {"metadata": {"type": "object"}, "step": {"type": "object"}},
        splits=mapping(record(path=TEXT, files=WHOLE) | {"additionalProperties": True}),
    )
    return of_files("inspect", file_schema({"packs": packs}))


def verify_schema() -> dict[str, Any]:
    """`mbpack verify --format json`."""
    checked = {"state": TEXT, "found": maybe(WHOLE), "exact": YES_NO, "note": maybe(TEXT)}
    run = record(
        state=TEXT,
        command=TEXT,
        seconds=NUMBER,
        passed=WHOLE,
        failures=array(record(test=TEXT, message=TEXT)),
        not_collected=WHOLE,
        skips=array(record(test=TEXT, reason=TEXT, needs_gpu=YES_NO)),
        note=maybe(TEXT),
        output=array(TEXT),
    )
    selection = record(
        path=TEXT,
        keyword=maybe(TEXT),
        command=TEXT,
        covers=TEXT,
        features=array(TEXT),
        gpus=WHOLE,
        expected=maybe(WHOLE),
        **checked,
        as_expected=YES_NO,
        not_run=maybe(TEXT),
        run=maybe(run),
    )
    correction = record(
        published=TEXT,
        why=TEXT,
        instead=maybe(TEXT),
        published_here=maybe(record(**checked)),
        instead_here=maybe(record(**checked)),
    )
    counts = dict.fromkeys(("selections", "as_expected", "passed", "failed", "skipped_gpu", "skipped_other"), WHOLE)
    return root(
        "verify",
        _VERSION,
        {
            "mbpack": TEXT,
            "release": TEXT,
            "release_source": TEXT,
            "config": maybe(TEXT),
            "features": maybe(array(TEXT)),
            "checkout": maybe(record(path=TEXT, version=maybe(TEXT), source=maybe(TEXT))),
            "notes": array(TEXT),
            "selections": array(selection),
            "corrections": array(correction),
            "summary": record(**counts, ran=YES_NO, interrupted=YES_NO, ok=YES_NO),
        },
    )


def lengths_schema() -> dict[str, Any]:
    """`mbpack lengths --format json`: a histogram that adds up."""
    schema = record(
        format={"const": "mbpack-lengths"},
        version={"const": 1},
        counted=word("stored", "runtime"),
        rows=WHOLE,
        tokens=WHOLE,
        schema=maybe(TEXT),
        tokenizer=maybe(TEXT),
        lengths=array(WHOLE),
        counts=array(WHOLE),
    )
    return {**root("lengths", _VERSION, {}), **schema}


#: Name of a schema -> what makes it; `overrides`, which depends on a release, is not among them.
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "report": report_schema,
    "explain": explain_schema,
    "init": init_schema,
    "migrate": migrate_schema,
    "list": list_schema,
    "fit": fit_schema,
    "plan": plan_schema,
    "lengths": lengths_schema,
    "inspect": inspect_schema,
    "verify": verify_schema,
}
