"""The command line: finds the command's module by its name and imports only that one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from mbpack.cli.output import silence, tolerant

#: Commands in the order help shows them, and the module of each.
COMMANDS = {
    "init": "mbpack.cli.init",
    "doctor": "mbpack.cli.doctor",
    "explain": "mbpack.cli.explain",
    "fit": "mbpack.cli.fit",
    "plan": "mbpack.cli.plan",
    "lengths": "mbpack.cli.lengths",
    "inspect": "mbpack.cli.inspect",
    "migrate": "mbpack.cli.migrate",
    "verify": "mbpack.cli.verify",
    "learn": "mbpack.cli.learn",
    "list": "mbpack.cli.listing",
    "schema": "mbpack.cli.schema",
    "completion": "mbpack.cli.completion",
    "skill": "mbpack.cli.skill",
    "report": "mbpack.cli.report",
    "lsp": "mbpack.cli.lsp",
}

#: Exit codes: usage or an input that cannot be used, a defect of mbpack, and Ctrl-C as shells count it.
USAGE, INTERNAL, INTERRUPTED = 2, 70, 130


def run(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code; never raises for bad input.

    A defect of mbpack is one line and exit code 70; with MBPACK_TRACEBACK set the exception is raised instead.
    """
    tolerant()
    try:
        code = _coloured(list(argv))
        if sys.stdout is not None:  # None where the caller closed it
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("aborted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        silence()
        return 1
    except OSError as error:  # a full disk behind standard output; commands answer for the files they name
        silence()
        print(f"mbpack: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""), file=sys.stderr)
        return USAGE
    except Exception as error:
        if os.environ.get("MBPACK_TRACEBACK"):
            raise
        words = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"mbpack: internal error: {words[:300]} (set MBPACK_TRACEBACK=1 to see where, and report it)", file=sys.stderr)
        return INTERNAL


def _coloured(argv: list[str]) -> int:
    if not any(word.startswith("--color") for word in argv):
        return _dispatch(argv)
    from mbpack.cli.colour import ColourError, chosen

    try:
        with chosen(argv) as rest:
            return _dispatch(rest)
    except ColourError as error:
        print(f"mbpack: {error}", file=sys.stderr)
        return USAGE


def _dispatch(argv: list[str]) -> int:
    if argv[:1] in (["--version"], ["-V"], ["version"]):
        from mbpack import __version__

        print(f"mbpack {__version__}")
        return 0
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        print(f"mbpack: {_no_command(argv[0])}", file=sys.stderr)
        return USAGE
    if len(argv) > 1 and argv[0] == "doctor":
        from mbpack.cli.doctor import doctor  # loading typer takes longer than checking a file

        if not any(word.startswith("-") and word != "-" for word in argv):
            return doctor(list(argv[1:]))
        from mbpack.cli.quick import arguments_of

        given = arguments_of(doctor, argv[1:])
        if given is not None:
            return doctor(**given)
    import typer

    from mbpack.cli.help_texts import HELP, PANELS, epilog, root_epilog
    from mbpack.cli.panels import panelled

    app = typer.Typer(
        name="mbpack",
        help="Wizard and configuration doctor for sequence packing and long-context fine-tuning in NVIDIA Megatron-Bridge.",
        epilog=root_epilog(),
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
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
            command = app.registered_commands[-1]
            command.short_help, command.epilog, command.cls = HELP[name].short, epilog(name), panelled(PANELS.get(name, {}))
    try:
        code = app(args=argv or ["--help"], prog_name="mbpack", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        print("aborted", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as leave:  # typer's answer to a reader who has gone
        return leave.code if isinstance(leave.code, int) else 1
    except Exception as error:
        show = getattr(error, "show", None)  # click's usage errors know how to print themselves
        if show is None:
            raise
        show()
        return USAGE
    if not argv:
        return USAGE  # the help was shown, but nothing was asked for
    return code if isinstance(code, int) else 0


def _no_command(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no command is called {name[:60]!r}{hint} (commands: {', '.join(COMMANDS)})"
