"""Help pages of commands with many options: those that belong together stand below one heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer.core


def panelled(panels: Mapping[str, Sequence[str]]) -> type[typer.core.TyperCommand]:
    """A command whose options stand below the headings that name their parameters; the others come first."""

    class Panelled(typer.core.TyperCommand):
        def format_options(self, ctx, formatter) -> None:  # type: ignore[no-untyped-def]  # click's types, vendored by typer or not
            heading_of = {name: heading for heading, names in panels.items() for name in names}
            rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], **{heading: [] for heading in panels}}
            for param in self.get_params(ctx):
                row = param.get_help_record(ctx)
                if row is not None:
                    plain = "Arguments" if param.param_type_name == "argument" else "Options"
                    rows[heading_of.get(param.name or "", plain)].append(row)
            for heading, found in rows.items():
                if found:
                    with formatter.section(heading):
                        formatter.write_dl(found)

    return Panelled
