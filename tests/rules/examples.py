"""Documentation examples and cases, run. An example is YAML text together with what its comments say lies around it:

    # found: {training: {rows: 300}}          packs, metadata and raw data on disk (tests/rules/found.py)
    # arguments: train.micro_batch_size=2     KEY=VALUE arguments beside the file
    # launch: torchrun run_recipe.py ...      a launch command instead of a file

Arguments and launch commands end with their line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mbpack.config.context import Given
from mbpack.config.document import Document, parse
from mbpack.config.overrides import parse_overrides
from mbpack.config.python import read_program
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.config.shell import read_launch
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.rules.registry import module_rules, rules_for
from mbpack.rules.watched import WATCHED
from tests.conftest import doctor
from tests.rules.found import doctor_with, in_text

#: What makes an example a Python program.
PROGRAM = re.compile(r"^(?:from|import) ", re.MULTILINE)
CONTEXT = ("bridge", "recipe", "gpus", "launcher", "step", "nodes", "gpu")


def examine_example(text: str) -> Result:
    """The doctor's answer to one example."""
    if PROGRAM.search(text):
        return of_program(text, Given())
    launch, arguments, found = _comment(text, "launch"), _comment(text, "arguments"), in_text(text)
    assert sum(map(bool, (launch, arguments, found))) <= 1, "one kind of surroundings an example"
    if launch:
        release = re.search(r"\bbridge=(\S+)", text)
        return launched(launch, Given(release[1] if release else None))
    if arguments:
        return with_arguments(text, arguments.split(), Given())
    return doctor_with(found, text) if found else doctor(text)


def examine_case(case: Mapping[str, Any]) -> Result:
    """The doctor's answer to a case of the YAML files."""
    context = {name: case[name] for name in CONTEXT if case.get(name) is not None}
    if "found" in case:
        return doctor_with(case["found"], case["input"], **context)
    flags = Given(**{name: str(value) if name == "bridge" else value for name, value in context.items()})
    if "program" in case:
        return of_program(case["program"], flags)
    if "launch" in case:
        return launched(case["launch"], flags)
    return with_arguments(case.get("input") or "", case.get("arguments", ()), flags)


def launched(command: str, flags: Given) -> Result:
    """The doctor's answer to a launch command, as it stands in a script."""
    launch = read_launch(command + "\n")
    assert launch is not None, f"no launch command: {command}"
    return judge(Request(flags=flags, launch=launch, script=Document("train.sh", command + "\n", None)))


def of_program(text: str, flags: Given) -> Result:
    """The doctor's answer to the last configuration that a Python program makes."""
    made, _ = read_program(text, None, flags.bridge, lambda name: None)
    assert made, "no configuration in the program"
    last = made[-1]
    return judge(Request(last.variants[1].documents, flags, variants=last.variants, shown=last.given, variable=last.variable))


def with_arguments(text: str, arguments: Sequence[str], flags: Given) -> Result:
    """The doctor's answer to a file with KEY=VALUE arguments beside it."""
    return judge(Request([parse(text)], flags, overrides=parse_overrides(arguments)))


def unasked(run: Run) -> list[str]:
    """Rules that find something where none of the keys that they wait for is written."""
    asked, found = rules_for(run.settings), []
    for rule in (rule for name in WATCHED for rule in module_rules(name)):
        if rule in asked or not rule.applies(run.release):
            continue
        try:
            found += [finding.rule.slug for finding in rule.check(run)]
        except (Unknown, WrongKind):
            continue
    return found


def _comment(text: str, name: str) -> str:
    match = re.search(rf"^# {name}: (.*)$", text, re.MULTILINE)
    return match[1] if match else ""
