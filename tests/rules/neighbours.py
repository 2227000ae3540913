"""A rule and the neighbours of its examples: every value that the rule reads, moved a little.

For each example (documentation, YAML cases) the values around it are changed one at a time: numbers by one, to zero and one
and double, switches turned, texts exchanged, keys taken out, keys that the rule reads put in, the same file under other
releases, launchers and GPU counts. What the rule answers is kept in ``tests/data/neighbours``, one file per topic, and
compared by ``test_neighbours.py``. The answers are mbpack's own: they show that something changed, not that it was right.

    python -m tests.rules.neighbours           say which answers have changed
    python -m tests.rules.neighbours --write   accept today's answers (read the diff before it is committed)
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.settings import Unknown, WrongKind
from mbpack.report.json import plain
from mbpack.rules.base import Finding, Rule
from mbpack.rules.catalogue import BY_NAME
from tests.rules.found import evidence_of

FOLDER = Path(__file__).parents[1] / "data" / "neighbours"
FILES = sorted(FOLDER.glob("*.txt"))
NOTHING = ("nothing",)
Answer = tuple[str, ...]

#: What a file of 0.6 is called before: a release change keeps the meaning of an example.
_OLD_NAMES = {
    "offline_packing_specs": "packed_sequence_specs",
    "enable_in_batch_packing": "pack_sequences_in_batch",
    "hf_rewrite": "rewrite",
    "megatron.bridge.data.packing.config.PackedSequenceSpecs": "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs",
}
_NEW_NAMES = {old: new for new, old in _OLD_NAMES.items()}
_BEFORE_06 = ("0.3", "0.4", "0.5")


@dataclass
class Example:
    """A configuration, its context, what lies on disk, and a rule's answer to it and to its neighbours."""

    slug: str
    origin: str
    context: dict[str, str]
    tree: dict[str, Any]
    found: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)  # change -> answer; "itself" is the example

    @property
    def rule(self) -> Rule:
        return BY_NAME[self.slug]

    def answer(self, change: str) -> Answer:
        """What the rule says after one change such as ``train.micro_batch_size=2``, ``-model.seq_length``, ``bridge=0.5``."""
        return answer_of(self.rule, *self.changed(change))

    def changed(self, change: str) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        context, tree, found = dict(self.context), copy.deepcopy(self.tree), copy.deepcopy(self.found)
        for part in change.split(" & "):
            if part == "itself":
                continue
            path, _, value = part.partition("=")
            name, _, inside = path.lstrip("-").partition(".")
            if name in Given.__struct_fields__ and not inside:
                context.pop(name, None)
                if not path.startswith("-"):
                    tree = renamed(tree, context.get("bridge", ""), value) if name == "bridge" else tree
                    context[name] = value
            elif name == "found":
                _put(found, inside.split("."), value, delete=path.startswith("-"))
            else:
                _put(tree, path.lstrip("-").split("."), value, delete=path.startswith("-"))
        return context, tree, found


def renamed(tree: Any, before: str, after: str) -> Any:
    """A configuration as another release spells it."""
    del before
    names = _OLD_NAMES if after in _BEFORE_06 else _NEW_NAMES
    if isinstance(tree, dict):
        return {names.get(name, name): renamed(value, "", after) for name, value in tree.items()}
    if isinstance(tree, list):
        return [renamed(value, "", after) for value in tree]
    return names.get(tree, tree) if isinstance(tree, str) else tree


def _put(tree: dict[str, Any], parts: list[str], value: str, delete: bool) -> None:
    for part in parts[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            if delete:
                return
            inner = tree[part] = {}
        tree = inner
    if delete:
        tree.pop(parts[-1], None)
    else:
        tree[parts[-1]] = json.loads(value)


def run_of(context: Mapping[str, str], tree: Mapping[str, Any], found: Mapping[str, Any]) -> Any:
    numbers = {name: int(value) if name in ("gpus", "nodes") else value for name, value in context.items()}
    document = parse(yaml.dump(dict(tree), Dumper=yaml.CSafeDumper, sort_keys=False))
    run = build_run(resolve_context(Given(**numbers), Given(), [document]), [document], environ=found.get("environ"))
    if found:
        run.evidence = evidence_of(found)
    return run


def answer_of(rule: Rule, context: Mapping[str, str], tree: Mapping[str, Any], found: Mapping[str, Any]) -> Answer:
    """What a rule says to a configuration, see :func:`answer_to`."""
    return answer_to(rule, run_of(context, tree, found))


def answer_to(rule: Rule, run: Any) -> Answer:
    """What a rule says to a run, a line per finding: all but the words."""
    if not rule.applies(run.release):
        return ("does not apply",)
    lines: list[str] = []
    try:
        lines += map(line, rule.check(run))
    except Unknown as unknown:
        said = "unknown" if rule.reports_unknown else "unknown, not reported"
        lines.append(f"{said}: {unknown.key}, needs {' '.join(unknown.needs) or unknown.reason}")
    except WrongKind as wrong:
        lines.append(f"text for a number: {wrong.setting.key}, stops at {rule.stops_at(run) or 'none'}")
    return tuple(lines) or NOTHING


def line(finding: Finding) -> str:
    parts = [" ".join(finding.outcome), f"at {finding.setting.key}{' (its name)' if finding.on_key else ''}"]
    if finding.related:
        parts.append("with " + ", ".join(dict.fromkeys(setting.key for setting in finding.related)))
    if finding.station != finding.rule.slug:
        parts.append(f"station {finding.station}")
    if finding.fix is not None:
        edits = [f"{e.op} {e.key} {json.dumps(e.to or plain(e.value))}" for e in finding.fix.edits]
        parts.append(f"{'safe' if finding.fix.safe else 'unsafe'} fix: {', '.join(edits) or 'advice'}")
    return "; ".join(parts)


# ---------------------------------------------------------------------- the files


def read(path: Path) -> list[Example]:
    """The examples of a file: ``@`` head, indented YAML, ``!`` what lies on disk, ``>`` answers, each before its changes."""
    examples: list[Example] = []
    body: list[str] = []
    answer: list[str] = []
    open_answer = False
    for text in path.read_text(encoding="utf-8").splitlines():
        if text.startswith("@ "):
            head, _, context = text[2:].partition(" | ")
            slug, _, origin = head.partition(" ")
            examples.append(Example(slug, origin, dict(word.split("=", 1) for word in context.split()), {}))
            body = []
        elif text.startswith("    "):
            body.append(text[4:])
        elif text.startswith("! "):
            examples[-1].found = yaml.load(text[2:], Loader=yaml.CSafeLoader)
        elif text.startswith("> "):
            if body:
                examples[-1].tree, body = yaml.load("\n".join(body), Loader=yaml.CSafeLoader), []
            answer = [*answer, text[2:]] if open_answer else [text[2:]]
        elif text:
            examples[-1].answers[text] = tuple(answer)
        open_answer = text.startswith("> ")
    return examples


def write(path: Path, examples: list[Example]) -> None:
    lines: list[str] = []
    for example in examples:
        context = " ".join(f"{name}={value}" for name, value in example.context.items())
        lines += [f"@ {example.slug} {example.origin} | {context}"]
        text = yaml.dump(example.tree, Dumper=yaml.CSafeDumper, sort_keys=False, width=200)
        lines += [f"    {part}" for part in text.splitlines()]
        if example.found:
            lines.append("! " + yaml.dump(example.found, Dumper=yaml.CSafeDumper, default_flow_style=True, width=1 << 30).strip())
        by_answer: dict[Answer, list[str]] = {}
        for change, answer in example.answers.items():
            by_answer.setdefault(answer, []).append(change)
        for answer, changes in by_answer.items():
            lines += [*(f"> {part}" for part in answer), *changes]
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


def differences(path: Path) -> Iterator[str]:
    """What a rule answers otherwise than the file says."""
    for example in read(path):
        if example.slug not in BY_NAME:
            yield f"{example.slug} ({example.origin}): no rule has this name any more"
            continue
        for change, expected in example.answers.items():
            actual = example.answer(change)
            if actual != expected:
                yield f"{example.slug} ({example.origin}), {change}:\n  - {' | '.join(expected)}\n  + {' | '.join(actual)}"


def main() -> int:
    changed = False
    for path in FILES:
        for difference in differences(path):
            changed = True
            print(difference)
        if "--write" in sys.argv[1:]:
            examples = [example for example in read(path) if example.slug in BY_NAME]
            for example in examples:
                example.answers = {change: example.answer(change) for change in example.answers}
            write(path, examples)
    return 1 if changed and "--write" not in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
