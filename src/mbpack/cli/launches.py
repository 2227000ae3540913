"""Launch scripts as inputs of `doctor`: one request per command that starts Megatron-Bridge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from mbpack.cli.inputs import InputError, NothingHere, read
from mbpack.cli.near import near
from mbpack.config.context import ContextProblem
from mbpack.config.document import Document, of_nothing_known
from mbpack.config.shell import ScriptError, read_script
from mbpack.engine.doctor import Request

Read = Callable[[str], Sequence[Document]]


def of_launches(path: str, request: Request, read_yaml: Read, script: Document | None = None) -> Iterator[Request]:
    """What is to be judged for a launch script; ``script`` is its text where that is not the file's own.

    Raises:
        InputError: it cannot be read, or starts nothing of Megatron-Bridge.
    """
    whole_file = script is None
    script = script if script is not None else read(path)
    try:
        whole = read_script(script.text, path)
    except ScriptError as error:
        raise InputError(str(error)) from None
    launches = whole.launches
    if not launches and not (whole.started and whole_file):
        raise NothingHere(f"{path}: no launch command of Megatron-Bridge found in this script")
    if not launches:
        from mbpack.cli.programs import of_script

        yield from of_script(path, whole, request, read_yaml)
        return
    for launch in launches:
        documents: list[Document] = []
        problems: list[ContextProblem] = []
        for word in launch.config_files:
            place = near(path, word.text)
            if place is not None:
                documents += read_yaml(place)
                continue
            name = word.text if word.known else "the file of its --config-file"
            documents.append(of_nothing_known(f"{name} is not here", script.path, script.text, word.line))
            problems.append(
                ContextProblem(f"{name} is not here: what it sets is not known, the rest is judged", word.line, "info")
            )
        source = Document(script.path, script.text, None)
        yield replace(request, documents=documents, launch=launch, script=source, path=path, problems=problems)
