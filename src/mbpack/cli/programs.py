"""Python programs as inputs of `doctor`: one request per configuration that a program makes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from mbpack.cli.inputs import InputError, NothingHere, read
from mbpack.cli.near import near, shown
from mbpack.config.context import Given
from mbpack.config.document import Document
from mbpack.config.python import Command, Made, PythonError, read_program
from mbpack.config.python.reading import Load
from mbpack.config.shell import Launch, LaunchOverride, Script, Started, Word
from mbpack.config.shell.started import Here, programs_in
from mbpack.engine.doctor import Request

Read = Callable[[str], Sequence[Document]]


def of_notebook(path: str, request: Request, read_yaml: Read) -> Iterator[Request]:
    """What is to be judged for a notebook: what its Python makes, and what its cells for the shell start.

    Raises:
        InputError: it cannot be read, or none of its cells makes or starts a configuration of Megatron-Bridge.
    """
    from mbpack.cli.launches import of_launches
    from mbpack.config.notebook import NotebookError, read_cells

    try:
        cells = read_cells(read(path).text)
    except NotebookError as error:
        raise InputError(f"{path}: {error}") from None
    any_found = False
    try:
        for made in of_program(path, request, read_yaml, Document(path, cells.program)):
            any_found = True
            for document in (document for variant in made.variants for document in variant.documents):
                document.reread = None  # the text is a part of the file: it is not to be written back
            yield made
    except NothingHere:
        pass
    try:
        for started in of_launches(path, request, read_yaml, Document(path, cells.script)):
            any_found = True
            yield started
    except NothingHere:
        pass
    if not any_found:
        raise NothingHere(
            f"{path}: no cell of this notebook makes a configuration that can be read without running it, or starts "
            "Megatron-Bridge's own scripts; mbpack.check(cfg) in a cell looks at the configuration itself"
        )


def of_program(path: str, request: Request, read_yaml: Read, program: Document | None = None) -> Iterator[Request]:
    """What is to be judged for a program; ``program`` is its text where that is not the file's own.

    Raises:
        InputError: it cannot be read, or makes no configuration of Megatron-Bridge.
    """
    program = program if program is not None else read(path)
    if "megatron" not in program.text and "nemo_run" not in program.text:
        raise NothingHere(_nothing(path, program.text, {}))
    try:
        made, notes = read_program(program.text, path, request.flags.bridge, _loader(path, read_yaml))
    except PythonError as error:
        raise InputError(f"{path}:{error.line}:{error.column}: {error}") from None
    jobs = list(_jobs(path, program, request, read_yaml)) if "nemo_run" in program.text else []
    yield from jobs
    if not made and not jobs:
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


def _jobs(path: str, program: Document, request: Request, read_yaml: Read) -> Iterator[Request]:
    """The jobs that a program hands to NeMo-Run: launches of Megatron-Bridge's own scripts, and programs beside it."""
    from mbpack.config.python.nemo_run import tasks_of
    from mbpack.config.shell import read_script

    for task in tasks_of(program.text, path):
        words = [shlex.quote(word) if word is not None else '"$UNKNOWN"' for word in (task.path, *task.arguments)]
        script = read_script(task.inline if task.inline is not None else f"torchrun {' '.join(words)}")
        for launch in script.launches:
            launch = at_line(launch, task.line, task.column, task.end_column)
            shown = Given(gpus=task.gpus or launch.gpus, nodes=task.nodes or launch.nodes)
            fields = Given.__struct_fields__
            flags = Given(**{name: getattr(request.flags, name) or getattr(shown, name) for name in fields})
            source = Document(path, program.text, None)
            yield replace(request, launch=launch, script=source, path=path, flags=flags)
        if not script.launches:
            try:
                for found in of_script(path, script, request, read_yaml):
                    given = replace(found.shown or Given(), gpus=task.gpus, nodes=task.nodes)
                    yield replace(found, shown=given)
            except NothingHere:
                continue


def at_line(launch: Launch, line: int, column: int, end_column: int) -> Launch:
    """A launch whose words all stand at one place of another file."""

    def moved(word: Word) -> Word:
        return replace(word, line=line, column=column, end_column=end_column)

    return replace(
        launch,
        script=moved(launch.script),
        flags=tuple(
            replace(flag, value=moved(flag.value) if flag.value else None, word=moved(flag.word)) for flag in launch.flags
        ),
        overrides=tuple(LaunchOverride(moved(one.word), moved(one.value)) for one in launch.overrides),
    )


def of_script(path: str, script: Script, request: Request, read_yaml: Read) -> Iterator[Request]:
    """What is to be judged for the Python programs that a launch script starts: files beside it, and those written in it.

    Raises:
        NothingHere: none of them makes a configuration that can be read.
    """
    written = list(programs_in(read(path).text, script.variables)) if "<<" in read(path).text else []
    seen: list[str] = []
    any_made = False
    for started in script.started:
        name = started.program.text
        found = _program_of(path, started, written)
        if found is None:
            seen.append(shown(name))
            continue
        text, where = found
        for made in _made_by(text, where, path, started, request, read_yaml):
            any_made = True
            given = made.given
            given = replace(given, gpus=started.counts.gpus or given.gpus, nodes=started.counts.nodes or given.nodes)
            yield replace(
                request,
                documents=made.variants[1].documents,
                variants=made.variants,
                shown=given,
                variable=made.variable,
                path=path if where == path else f"{path} + {where}",
            )
    if not any_made:
        what = f"it starts {', '.join(dict.fromkeys(seen))}, not found beside it" if seen else "it starts none that makes one"
        raise NothingHere(f"{path}: no launch command of Megatron-Bridge and no program with a configuration: {what}")


def _program_of(path: str, started: Started, written: Sequence[Here]) -> tuple[str, str] | None:
    """The text of a started program and the file it stands in."""
    name = started.program.text
    if name == "-":
        return next(((here.text, path) for here in written if not here.file and here.line == started.program.line), None)
    if name.startswith("${shell:"):  # the text of a variable, told by its name or by the place where it is made
        line, mark = started.program.line, f"${name[8:-1]}"
        held = [here for here in written if here.file == mark or (here.file.startswith("$") and here.line == line)]
        if held:
            return held[-1].text, path
    base = name.rpartition("/")[2]
    inside = [here for here in written if here.file == base and here.line < started.program.line]
    if inside:
        return inside[-1].text, path
    place = near(path, name) or near(path, base)
    return None if place is None else (read(place).text, place)


def _made_by(text: str, where: str, path: str, started: Started, request: Request, read_yaml: Read) -> list[Made]:
    """The configurations that a started program hands over; none for a program of another kind."""
    if "megatron" not in text:
        return []
    arguments = tuple(word.text if word.known else None for word in started.arguments)
    command = Command(arguments, started.environment)
    try:
        made, _ = read_program(text, where, request.flags.bridge, _loader(path, read_yaml), command)
    except PythonError as error:
        raise InputError(f"{where}:{error.line}:{error.column}: {error}") from None
    handed = [configuration for configuration in made if configuration.launched]
    if where == path:  # the text is a part of the file: it is not to be written back
        for document in (document for entry in handed for variant in entry.variants for document in variant.documents):
            document.reread = None
    return handed


def _loader(path: str, read_yaml: Read) -> Load:
    def load(name: str) -> Sequence[Document] | None:
        place = near(path, name)
        return None if place is None else read_yaml(place)

    return load


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
