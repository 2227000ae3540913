"""The command line: finds the command's module by its name and imports only that one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

#: Commands in the order help shows them, and the module of each.
COMMANDS = {
    "init": "mbpack.cli.init",
    "doctor": "mbpack.cli.doctor",
    "explain": "mbpack.cli.explain",
    "plan": "mbpack.cli.plan",
    "lengths": "mbpack.cli.lengths",
    "inspect": "mbpack.cli.inspect",
    "migrate": "mbpack.cli.migrate",
    "verify": "mbpack.cli.verify",
}


def run(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code; never raises for bad input."""
    import typer

    app = typer.Typer(
        name="mbpack",
        help="Wizard and configuration doctor for sequence packing and long-context fine-tuning in NVIDIA Megatron-Bridge.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def root() -> None:
        """Commands read no network and need no GPU."""

    wanted = argv[0] if argv and argv[0] in COMMANDS else None
    for name, module in COMMANDS.items():
        if wanted is None or name == wanted:
            import_module(module).register(app)
    try:
        code = app(args=list(argv), standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        print("aborted", file=sys.stderr)
        return 130
    except Exception as error:
        show = getattr(error, "show", None)  # click's usage errors know how to print themselves
        if show is None:
            raise
        show()
        return 2
    return code if isinstance(code, int) else 0
