"""References for programs: the JSON that commands print, from their schemas, and the Python interface, from its docstrings."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

from tools.site.page import Page, code, fenced, plain, table
from tools.site.sessions import Recorder

import mbpack
from mbpack import api
from mbpack.cli.schema import KINDS


def contract(recorder: Recorder) -> Page:
    """Every schema of `mbpack schema` but that of override files, as tables, with a real report."""
    parts = [
        "Every report for programs names its `schema_version`. Within one version fields are only added; one that changes its meaning, or "
        "goes, makes a new version. `mbpack schema` prints these schemas as JSON Schema; the tests validate what the commands print.",
    ]
    for kind in KINDS:
        if kind == "overrides":
            continue
        [(_, printed)] = recorder.outputs([f"mbpack schema {kind}"])
        schema = json.loads(printed)
        rows = [
            (code(path), plain(what), plain(inner.get("description", ""))) for path, what, inner in _fields(schema, "", schema)
        ]
        parts += [f"## {kind}", table(("field", "is", ""), rows)]
    [(_, shown)] = recorder.outputs(["mbpack doctor sft.yaml --format json --select BAT101"])
    parts += ["## For example", "`mbpack doctor sft.yaml --format json --select BAT101`:", fenced(shown, "json")]
    return Page("json.html", "JSON", "The JSON that mbpack's commands print, field by field.", "\n\n".join(parts))


def _fields(schema: dict[str, Any], path: str, root: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Dotted path, kind and schema of every field below a schema."""
    schema = _resolved(schema, root)
    for name, inner in schema.get("properties", {}).items():
        inner = _resolved(inner, root)
        null = [one for one in inner.get("anyOf", []) if one.get("type") == "null"]
        held = next((_resolved(one, root) for one in inner.get("anyOf", []) if one.get("type") != "null"), inner)
        here = f"{path}.{name}" if path else name
        yield here, _kind(held, root) + (" or null" if null else ""), inner
        if held.get("type") == "array":
            yield from _fields(held.get("items", {}), f"{here}[]", root)
        else:
            yield from _fields(held, here, root)


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    if not reference.startswith("#/"):
        return schema
    found: Any = root
    for part in reference[2:].split("/"):
        found = found[part]
    return dict(found)


def _kind(schema: dict[str, Any], root: dict[str, Any]) -> str:
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return ", ".join("null" if one is None else str(one) for one in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        inner = _kind(_resolved(schema.get("items", {}), root), root)
        return f"list of {inner}"
    return ", ".join(kind) if isinstance(kind, list) else str(kind)


def python() -> Page:
    """`mbpack.check` and what it returns, from signatures and docstrings."""
    lead, example, rest = (inspect.getdoc(api) or "").split("\n\n")
    parts = [plain(lead), fenced(inspect.cleandoc(example), "python"), plain(rest)]
    for name in api.__all__:
        thing = getattr(mbpack, name)
        parts.append(f"## mbpack.{name}")
        if inspect.isfunction(thing):
            signature = re.sub(r", (?=\w+:|\*)", ",\n    ", re.sub(r"(: |-> )'([^']+)'", r"\1\2", str(inspect.signature(thing))))
            parts.append(fenced(f"{name}{signature}", "python"))
        parts.append(_docstring(inspect.getdoc(thing) or ""))
        if isinstance(thing, type):
            fields = [(code(field), code(str(kind))) for field, kind in getattr(thing, "__annotations__", {}).items()]
            properties = [
                (code(field), plain((inspect.getdoc(value) or "").split("\n")[0]))
                for field, value in vars(thing).items()
                if isinstance(value, property)
            ]
            parts += [table(("field", "kind"), fields), table(("property", "is"), properties)]
    return Page(
        "python.html",
        "Python",
        "mbpack.check in training scripts and notebooks.",
        "\n\n".join(part for part in parts if part),
        (),
        "mbpack.check CheckFailed Report Finding",
    )


def _docstring(text: str) -> str:
    """A docstring as Markdown: lines ``name    what it is`` become a list."""
    lines = []
    for line in text.split("\n"):
        named = re.match(r"^(\w+) {2,}(\S.*)$", line)
        raised = re.match(r"^    (\w+): (.*)$", line)
        lines.append(
            f"- {code(named[1])}: {plain(named[2])}"
            if named
            else f"- {code(raised[1])}: {plain(raised[2])}"
            if raised
            else plain(line.strip()) + ("\n" if line.endswith(":") else "")
        )
    return "\n".join(lines)
