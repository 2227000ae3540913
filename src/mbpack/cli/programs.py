"""Python programs as inputs of `doctor`: one request per configuration that a program makes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from mbpack.cli.inputs import InputError, NothingHere, read
from mbpack.config.document import Document
from mbpack.config.python import PythonError, read_program
from mbpack.engine.doctor import Request

Read = Callable[[str], Sequence[Document]]


def of_program(path: str, request: Request, read_yaml: Read) -> Iterator[Request]:
    """What is to be judged for a program.

    Raises:
        InputError: it cannot be read, or makes no configuration of Megatron-Bridge.
    """
    program = read(path)
    folder = os.path.dirname(path)

    def load(name: str) -> Sequence[Document] | None:
        for place in (name, os.path.join(folder, name)):
            if os.path.isfile(place):
                return read_yaml(place)
        return None

    try:
        made, notes = read_program(program.text, path, request.flags.bridge, load)
    except PythonError as error:
        raise InputError(f"{path}:{error.line}:{error.column}: {error}") from None
    if not made:
        raise NothingHere(_nothing(path, program.text, notes))
    for configuration in made:
        for document in (document for variant in configuration.variants for document in variant.documents):
            document.bom = program.bom if document.language == "python" else document.bom
        yield replace(
            request,
            documents=configuration.variants[1].documents,
            variants=configuration.variants,
            shown=configuration.given,
            variable=configuration.variable,
            path=path,
        )


def _nothing(path: str, text: str, notes: object) -> str:
    """Why nothing can be judged, in one line."""
    if "megatron.bridge" not in text and "megatron" not in text:
        return f"{path}: this Python file does not import megatron.bridge: there is no configuration in it to check"
    more = ""
    if isinstance(notes, dict) and notes:
        what, line = next(iter(notes.items()))
        more = f" ({what} in line {line} is not followed)"
    return (
        f"{path}: no configuration is made in this file that can be read without running it{more}; "
        "check its saved run_config.yaml, or give --recipe NAME and KEY=VALUE arguments"
    )
