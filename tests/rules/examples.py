"""Documentation examples, run: the YAML text together with what its comments say lies around it.

    # found: {training: {rows: 300}}          packs, metadata and raw data on disk (tests/rules/found.py)
    # arguments: train.micro_batch_size=2     KEY=VALUE arguments beside the file
    # launch: torchrun run_recipe.py ...      a launch command instead of a file

Arguments and launch commands end with their line.
"""

from __future__ import annotations

import re

from mbpack.config.context import Given
from mbpack.config.document import Document, parse
from mbpack.config.overrides import parse_overrides
from mbpack.config.shell import read_launch
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from tests.conftest import doctor
from tests.rules.found import doctor_with, in_text


def examine_example(text: str) -> Result:
    """The doctor's answer to one example."""
    launch, arguments, found = _comment(text, "launch"), _comment(text, "arguments"), in_text(text)
    assert sum(map(bool, (launch, arguments, found))) <= 1, "one kind of surroundings an example"
    if launch:
        command = read_launch(launch)
        assert command is not None, f"no launch command: {launch}"
        release = re.search(r"\bbridge=(\S+)", text)
        flags = Given(release[1] if release else None)
        return judge(Request(flags=flags, launch=command, script=Document("train.sh", launch, None)))
    if arguments:
        return judge(Request([parse(text)], overrides=parse_overrides(arguments.split())))
    return doctor_with(found, text) if found else doctor(text)


def _comment(text: str, name: str) -> str:
    match = re.search(rf"^# {name}: (.*)$", text, re.MULTILINE)
    return match[1] + "\n" if match else ""
