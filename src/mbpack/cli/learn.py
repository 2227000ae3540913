"""`mbpack learn`: read the fields and recipes of a Megatron-Bridge that mbpack does not know."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("learn")(learn)


def learn(
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH", help="A checkout, a folder of installed packages, or the package itself."),
    ] = None,
    bridge: Annotated[str | None, typer.Option(help="The version it is; by default the one it states.")] = None,
    forget: Annotated[str | None, typer.Option(metavar="VERSION", help="Remove what was learned of a version.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was read, keep nothing.")] = False,
) -> int:
    """Read fields, defaults and recipes of a Megatron-Bridge from its sources, without running them, and use them from now on."""
    from mbpack.config.beside import find_beside
    from mbpack.facts import learned
    from mbpack.learn.lists.job import LearnError, kept, read

    if forget is not None:
        return _forget(forget)
    if source is None:
        found = find_beside()
        source = found.folder if found is not None else None
    if source is None:
        print("mbpack learn: nothing is installed here; name a checkout or a folder of packages with --from", file=sys.stderr)
        return 2
    try:
        lesson = read(source, bridge)
    except LearnError as error:
        print(f"mbpack learn: {error}", file=sys.stderr)
        return 2
    path = ""
    if not dry_run:
        import os

        import msgspec

        from mbpack.config.writing import write_atomically

        path = learned.path_of(lesson.version.patch)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomically(learned.recipes_path_of(lesson.version.patch), lesson.recipes.lines())
            write_atomically(path, msgspec.json.encode(kept(lesson)))
        except OSError as error:
            print(f"mbpack learn: {path}: {error.strerror or error}", file=sys.stderr)
            return 2
    learned.forget_read()
    from mbpack.cli.output import emit

    emit("\n".join(lesson.summary(path)))
    return 0


def _forget(version: str) -> int:
    import os

    from mbpack.facts import learned

    path = learned.path_of(version)
    try:
        os.remove(path)
        with contextlib.suppress(FileNotFoundError):
            os.remove(learned.recipes_path_of(version))
    except FileNotFoundError:
        print(f"mbpack learn: nothing was learned of {version}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"mbpack learn: {path}: {error.strerror or error}", file=sys.stderr)
        return 2
    print(f"Forgot {version}.")
    return 0
