"""What the facts say about each release, as one page of plain lines per release.

The facts state most things once with a first and last release; these pages turn that round, so that a boundary that moves
shows on the pages of the releases it concerns. They are in ``tests/data/facts``, compared by ``test_by_release.py``.

    python -m tests.facts.by_release           say what has changed
    python -m tests.facts.by_release --write   accept today's pages (read the diff before it is committed)
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from mbpack.facts import (
    activations,
    artifacts,
    attention,
    commands,
    expert_settings,
    families,
    hard_blocks,
    hybrid_patterns,
    inference,
    keys,
    launchers,
    migration,
    modes,
    offloading,
    pitfalls,
    recipes,
    recomputation,
    sections,
    targets,
    upstream_tests,
)
from mbpack.facts.derivations import MEANINGS
from mbpack.facts.releases import RELEASES, Release

FOLDER = Path(__file__).parents[1] / "data" / "facts"

_NAMED = {release.name: release for release in RELEASES}
_TARGETS = (
    *("megatron.bridge.training.config.TrainingConfig", "torch.bfloat16", "torch.load", "numpy.load", "torch._C._nn.gelu"),
    *("os.system", "signal.SIGTERM", "functools.partial", "functools.reduce", "transformers.AutoModel.from_pretrained"),
    *("megatron.core._private", "torch.hub.load", "nemo.x", "nvidia.x", "numpy.array", "transformers.AutoConfig"),
)


_MODULES = (activations, expert_settings, inference, launchers, offloading)
_PEFT = ("nemotron_omni_", "qwen35_vl_", "llama3_8b_")

#: The pages: one for each release, and one of what holds for all.
EVERY = "every"
NAMES = (EVERY, *(release.name for release in RELEASES))


def page(name: str) -> list[str]:
    """The lines of a page."""
    if name == EVERY:
        return [f"pitfall {p.number} {p.title}: {' '.join(p.rules)}" for p in pitfalls.PITFALLS]
    return [f"{topic}: {line}" for topic, lines in _topics(_NAMED[name]) for line in lines]


def _topics(release: Release) -> Iterator[tuple[str, list[str]]]:
    yield "mode", [m.name for m in modes.MODES.values() if m.since <= release]
    yield "option", list(_options(release))
    yield "preset", [*hard_blocks.unpacked_presets(release)]
    yield "key", [f"{r.new} is {keys.path_in(release, r.new)}" for r in keys.RENAMES]
    yield "specs", [keys.specs_target(release)]
    yield "section", [f"{name} stops at {sections.stops_at(release, name)}" for name in sorted(sections.SECTION_NAMES)]
    yield "required", [" ".join(sections.required(release))]
    yield "class", [f"{c.old_name()} becomes {c.new_name()}" for c in migration.CLASS_CHANGES if c.since == release]
    yield "changes", [f"{b.concerns or 'all'}: {b.text.split(':')[0][:60]}" for b in migration.BEHAVIOUR if b.since == release]
    yield "setter", list(_setters(release))
    yield "target", [f"{target} {'refused' if targets.is_blocked(release, target) else 'taken'}" for target in _TARGETS]
    yield "recompute", [" ".join(sorted(recomputation.recompute_module_names(release)))]
    yield "layers", [hybrid_patterns.symbols(release) or "not on record"]
    yield "packs", list(_packs(release))
    yield "command", list(_commands(release))
    yield "cp_comm_type", list(_comm_types(release))
    yield "support", list(_support(release))
    yield "step", list(_steps(release))
    yield "test", list(_tests(release))
    yield "answer", list(_answers(release))
    yield "adapter", [f"{start} {'any' if launchers.takes_scheme(release, start + 'peft') else 'LoRA'}" for start in _PEFT]


def _answers(release: Release) -> Iterator[str]:
    """What the functions say that take nothing but a release."""
    for module in _MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and list(inspect.signature(function).parameters) == ["release"]:
                found = function(release)
                held = sorted(found) if isinstance(found, (set, frozenset, dict)) else found
                yield f"{module.__name__.rpartition('.')[2]}.{name}: {held if isinstance(held, str) else ' '.join(map(str, held))}"


def _options(release: Release) -> Iterator[str]:
    for name in sorted({name for flag in launchers.FLAGS for name in flag.names}):
        flag = launchers.flag_in(release, name)
        if flag is not None:
            yield f"{name}{' VALUE' if flag.takes_value else ''} sets {flag.sets or 'no key'}"


def _setters(release: Release) -> Iterator[str]:
    for key, meaning in MEANINGS.items():
        for setter in meaning.setters:
            first, last = (text or end for text, end in zip((setter.since, setter.until), ("0.3", "nightly"), strict=True))
            if _NAMED[first] <= release <= _NAMED[last]:
                yield f"{key}, {setter.who} ({setter.span})"


def _packs(release: Release) -> Iterator[str]:
    yield artifacts.pack_directory(release, "tok", 8)
    yield artifacts.pack_directory(release, "tok", 8, "abc")
    yield artifacts.pack_file(release, "training", 2048)
    yield f"glob characters {artifacts.glob_characters(release)}"


def _commands(release: Release) -> Iterator[str]:
    yield commands.convert_command(release, "org/model", "out")
    yield from (" ".join(commands.builder_import(release, hf)) for hf in (False, True))


def _comm_types(release: Release) -> Iterator[str]:
    for packed in (False, True):
        for window, offset, mla in ((False, False, False), (True, False, False), (False, True, False), (False, False, True)):
            found = attention.usable_comm_types(release, packed, window=window, softmax_offset=offset, mla=mla)
            yield f"{packed=} {window=} {offset=} {mla=}: {' '.join(found) or 'none'}"


def _support(release: Release) -> Iterator[str]:
    for family in families.FAMILIES:
        found = families.recipes_of(release.name, family.name)
        yield f"{family.name}: {len(found)} recipes"
        for mode in modes.MODES:
            answer = families.support(release, family.name, mode)
            yield f"{family.name} {mode}: {answer.verdict} {answer.slug or ''} since {answer.since}"
        recipe = recipes.find(release.name, found[0]) if found else None
        if recipe is not None:
            yield f"{recipe.name}: {families.attention_of(release, recipe)}"


def _steps(release: Release) -> Iterator[str]:
    steps = {hard_blocks.launcher_step(release, name, native) for name in recipes.names(release.name) for native in (False, True)}
    for step in sorted(steps):
        named = [name for name in recipes.names(release.name) if hard_blocks.launcher_step(release, name) == step]
        native = [name for name in recipes.names(release.name) if hard_blocks.launcher_step(release, name, True) == step]
        yield f"{step} ({commands.step_module(step)}): {len(named)} recipes, {len(native)} with native Energon packing"


def _tests(release: Release) -> Iterator[str]:
    for s in upstream_tests.commands(release.name):
        yield f"{s.path} -k {s.keyword!r}: {s.expected} {sorted(s.also)}, {s.gpus} GPUs, {' '.join(sorted(s.features))}"
    for c in upstream_tests.corrections(release.name):
        yield f"instead of {c.path} -k {c.keyword!r}: {c.instead.command if c.instead else 'nothing'}"


def main() -> int:
    write, changed = "--write" in sys.argv[1:], False
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        path, lines = FOLDER / f"{name}.txt", page(name)
        before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in difflib.unified_diff(before, lines, f"{name}, on record", f"{name}, today", n=0, lineterm=""):
            changed = True
            print(line)
        if write:
            path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return 1 if changed and not write else 0


if __name__ == "__main__":
    sys.exit(main())
