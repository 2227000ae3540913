"""The JSON Schema of `mbpack doctor --format json`, also with `--fix` and `--diff`, schema_version 1."""

from __future__ import annotations

from typing import Any

from mbpack.report.json import SCHEMA_VERSION
from mbpack.report.schema_parts import ANY, TEXT, WHOLE, YES_NO, array, mapping, maybe, record, root, word


def report_schema() -> dict[str, Any]:
    """The schema of the whole report."""
    return of_files("report", file_schema())


def of_files(name: str, of_one: dict[str, Any]) -> dict[str, Any]:
    """The schema of a report on several configurations, from that of one."""
    parts = {
        "mbpack": TEXT,
        "files": array(of_one),
        "problems": array(record(path=maybe(TEXT), message=TEXT)),
        "summary": record(files=WHOLE, errors=WHOLE, warnings=WHOLE),
    }
    return root(name, SCHEMA_VERSION, parts)


def file_schema(optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """One configuration; ``fixes`` and ``diff`` are there with ``--fix`` and ``--diff``."""
    after_fixing = {"fixes": array(record(code=TEXT, title=TEXT)), "diff": TEXT}
    return record(
        {**after_fixing, **(optional or {})},
        path=maybe(TEXT),
        context=maybe(
            record(
                bridge=TEXT,
                recipe=maybe(TEXT),
                gpus=maybe(WHOLE),
                gpu=maybe(TEXT),
                launcher=word("run_recipe", "script", None),
                sources=mapping(TEXT),
            )
        ),
        mode=word("offline", "in_batch", "energon", "global_batch", "none", "unknown"),
        verdict=word("rejected", "accepted", "unknown"),
        candidates=maybe(
            record(
                {"names": array(TEXT)},
                recipes=WHOLE,
                rejected=WHOLE,
                accepted=WHOLE,
                unknown=WHOLE,
                few=array(record(code=TEXT, slug=TEXT, message=TEXT, recipes=WHOLE)),
            )
        ),
        findings=array(_finding()),
        by_release=array(record(code=TEXT, slug=TEXT, consequence=TEXT, message=TEXT, holds_for=_holds_for())),
        not_checked=array(record(code=TEXT, needs=array(TEXT))),
        derived=mapping(WHOLE),
        upstream_tests=array(TEXT),
    )


def _finding() -> dict[str, Any]:
    place = {name: maybe(WHOLE) for name in ("line", "column")}
    elsewhere = {"path": TEXT}  # where it is not the file reported on
    return record(
        elsewhere,
        code={"type": "string", "pattern": "^[A-Z]{3}[0-9]{3}$"},
        slug=TEXT,
        severity=word("error", "warning", "info"),
        consequence=word("rejected", "crash", "silent", "ignored", "waste", "note"),
        when=word("load", "validate", "data", "first-step", "evaluation", "resume", "always"),
        message=TEXT,
        why=TEXT,
        key=maybe(TEXT),
        **place,
        end_column=maybe(WHOLE),
        related=array(record(elsewhere, key=TEXT, **place, value=ANY)),
        fix=maybe(record(safety=word("safe", "unsafe"), title=TEXT, edits=array(_edit()))),
        fires_first=YES_NO,
        holds_for=maybe(_holds_for()),
    )


def _holds_for() -> dict[str, Any]:
    return record(
        input=word("recipe", "launcher", "gpus", "gpu", "bridge"),
        number=WHOLE,
        of=WHOLE,
        such_as=array(TEXT),
        not_with=array(TEXT),
        also=TEXT,
    )


def _edit() -> dict[str, Any]:
    return record(op=TEXT, key=TEXT, value=ANY, to=maybe(TEXT))
