"""`mbpack list`: what mbpack knows, a line each, for people and programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError
from mbpack.cli.output import emit

KINDS = ("recipes", "families", "rules", "keys", "releases")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("list")(list_all)


def list_all(
    kind: Annotated[str, typer.Argument(metavar=choice(KINDS), help="What to list.")],
    words: Annotated[
        list[str] | None, typer.Argument(help="Only lines that hold all of these words.", show_default=False)
    ] = None,
    bridge: Annotated[str, typer.Option(help="Megatron-Bridge release; recipes, families and keys are those of it.")] = "0.6",
    output_format: Annotated[str, typer.Option("--format", metavar=choice(TEXT_JSON), help="How it is printed.")] = "text",
) -> int:
    """List recipes, families, rules, keys or releases; words narrow the list (`mbpack list recipes qwen3 sft`)."""
    from mbpack.config.context import ContextError, check_value
    from mbpack.facts.releases import parse_version

    if kind not in KINDS:
        return _refuse(f"{kind!r} cannot be listed; use {', '.join(KINDS)}")
    try:
        check_choice("--format", output_format, TEXT_JSON)
        check_value("bridge", bridge, "--bridge")
    except (ContextError, InputError) as error:
        return _refuse(str(error))
    release = parse_version(bridge).release.name
    wanted = [word.lower() for word in words or ()]
    rows = [row for row in _ROWS[kind](release) if all(word in _searched(row) for word in wanted)]
    if output_format == "json":
        from mbpack.report.json import dumps

        emit(dumps({"schema_version": 1, "kind": kind, "bridge": release, "entries": rows}), machine=True)
    else:
        emit(
            "\n".join(_line(row, rows) for row in rows)
            or f"no {kind} of {release} hold{'s' if len(wanted) == 1 else ''} {' '.join(wanted)}"
        )
    return 0 if rows else 1


def _refuse(message: str) -> int:
    print(f"mbpack list: {message}", file=sys.stderr)
    return 2


def _searched(row: dict[str, Any]) -> str:
    return " ".join(str(value).lower() for value in row.values())


def _line(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The values of a row side by side, the first two in columns."""
    names = list(row)
    widths = [max(len(str(other[name] or "-")) for other in rows) for name in names[:2]]
    cells = [str(row[name] if row[name] not in (None, "") else "-") for name in names]
    return "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)), *cells[2:]]).rstrip()


def _recipes(release: str) -> Iterator[dict[str, Any]]:
    from mbpack.facts import families
    from mbpack.facts.recipes import find, names

    for name in names(release):
        recipe = find(release, name)
        if recipe is not None:
            yield {
                "name": name,
                "workload": families.workload(name),
                "family": recipe.family,
                "gpus": recipe.gpus,
                "model": recipe.hf_id,
            }


def _families(release: str) -> Iterator[dict[str, Any]]:
    from mbpack.facts.families import offered, recipes_of

    for family in offered(release):
        yield {
            "name": family.name,
            "modality": family.modality,
            "recipes": len(recipes_of(release, family.name)),
            "title": family.title,
        }


def _rules(release: str) -> Iterator[dict[str, Any]]:
    from mbpack.rules.catalogue import ALL_RULES
    from mbpack.rules.documentation import page_of

    for rule in sorted(ALL_RULES, key=lambda rule: rule.code):
        first, last = rule.releases
        yield {"code": rule.code, "slug": rule.slug, "releases": f"{first} to {last}", "summary": page_of(rule).title}


def _keys(release: str) -> Iterator[dict[str, Any]]:
    from mbpack.facts.schema import schema

    known = schema(release)
    shared = {"dataset": known.any_dataset_fields(), "model": known.any_model_fields()}
    for section in sorted(known.sections):
        cls = known.section_class(section)
        fields = known.fields(cls) if cls is not None else None
        for name in sorted(name for name in (fields if fields is not None else shared.get(section, ())) if name[0] != "_"):
            yield {"key": f"{section}.{name}", "type": fields[name].type if fields is not None else None}


def _releases(_: str) -> Iterator[dict[str, Any]]:
    from mbpack.facts.recipes import names
    from mbpack.facts.releases import DEFAULT, RELEASES

    for release in RELEASES:
        yield {
            "name": release.name,
            "newest_patch": release.newest_patch,
            "recipes": len(names(release.name)),
            "default": release is DEFAULT,
        }


_ROWS: dict[str, Callable[[str], Iterator[dict[str, Any]]]] = {
    "recipes": _recipes,
    "families": _families,
    "rules": _rules,
    "keys": _keys,
    "releases": _releases,
}
