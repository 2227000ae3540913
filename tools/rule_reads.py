"""Which keys every rule reads: on the recipes of every release with nothing written over them, and beyond that on files
(src/mbpack/rules/reads.tsv).

usage: python tools/rule_reads.py [--check | --covers]

Every rule is asked about all recipes of a release (as `mbpack.engine.split` asks them) under each launcher and several GPU
counts, with settings that note what is asked for; and about the cases of the tests and a share of the recorded configurations.
`--check` writes nothing and exits with 1 when the file would change; `--covers` asks about recipes under one launcher and GPU
count alone, and exits with 1 when a rule reads what the file does not have.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tools.table_reads import decisive, read_by_tables

from mbpack.config.answers import Layer, Setting
from mbpack.config.context import Context, Given, resolve_context
from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.config.settings import Settings, Unknown, WrongKind
from mbpack.engine.doctor import Request, judge
from mbpack.engine.reads import ANYTHING, FILE, TARGET, Touched, reads
from mbpack.facts.recipe_sets import Fork, RecipeSet, RecipeTable, table
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import schema
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.worded import Worded

ROOT = Path(__file__).resolve().parent.parent
GPUS = (None, 8, 64, 1024)
LAUNCHERS = (None, "run_recipe", "script")
#: Recorded configurations of each kind and release that are asked about.
OF_EACH = 12


class NotedSettings(Settings):
    """Settings that note the keys they are asked for; whoever asks for what is written, whatever it is, asks for everything."""

    noted: set[str]

    def __init__(self, context: Context, recipe: Recipe) -> None:
        self.noted = set()
        super().__init__(context.version, schema(context.version.release.name), (), recipe)
        self._layers: tuple[Layer, ...] = ()

    def find(self, key: str) -> Setting:
        self.noted.add(key)
        return super().find(key)

    def written(self, key: str) -> Setting | None:
        self.noted.add(key)
        return super().written(key)

    def mapping(self, key: str) -> dict[str, Setting]:
        self.noted.add(key)
        return super().mapping(key)

    def recipe_entries(self, key: str) -> Mapping[str, Any]:
        self.noted.add(key)
        return super().recipe_entries(key)

    def class_at(self, section: str) -> str | None:
        self.noted.add(f"{section}.{TARGET}")
        return super().class_at(section)

    def target_at(self, section: str) -> Setting | None:
        self.noted.add(f"{section}.{TARGET}")
        return super().target_at(section)

    def sections(self) -> Iterator[tuple[str, Item, Layer]]:
        self.noted.add("@layers")
        return super().sections()

    def __getattribute__(self, name: str) -> Any:
        if name in _WIDE and _from_a_rule():
            object.__getattribute__(self, "noted").add(_WIDE[name])
        return object.__getattribute__(self, name)


#: What settings hold beside their answers.
_WIDE = {"classes": "@classes", **dict.fromkeys(("layers", "loading", "resolve", "fallback", "keeps", "gone"), "@layers")}
_GIVEN = frozenset({"launcher", "gpus", "gpu", "step", "nodes", "flags"})


class NotedContext:
    """A context that notes who asks for what is given beside the files."""

    def __init__(self, context: Context, into: set[str]) -> None:
        self._context, self._into = context, into

    def __getattr__(self, name: str) -> Any:
        if name in _GIVEN:
            self._into.add(f"@{name}")
        return getattr(self._context, name)


class NotedRun(Run):
    """A run that notes who asks for arguments, for what was found on disk and for what became of other rules."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("overrides", "evidence", "stopped") and "noted" in vars(self.settings):
            cast(NotedSettings, self.settings).noted.add(f"@{name}")
        return object.__getattribute__(self, name)


#: Modules that work for the settings: what they look at belongs to the key that was asked for.
_INSIDE = frozenset(
    f"{name}.py" for name in ("settings", "loading", "merged_tree", "object_classes", "layering", "interpolation")
)


def _from_a_rule() -> bool:
    """Whether the caller's caller does not work for the settings themselves."""
    return Path(sys._getframe(2).f_code.co_filename).name not in _INSIDE


def read_by(rule: Rule, run: Run, held: RecipeTable, into: set[str]) -> None:
    """Ask a rule about all recipes; those that answer otherwise are asked again."""
    waiting = [held.all]
    while waiting:
        mask = waiting.pop()
        fresh = run.settings.on(cast(Recipe, RecipeSet(held, mask)))
        try:
            _ask(rule, fresh, run, into)
        except Fork as fork:
            waiting += fork.parts


def read_on_file(rule: Rule, run: Run, into: set[str]) -> None:
    """Ask a rule about one configuration."""
    fresh = run.settings.on(cast(Recipe, run.settings.recipe))
    fresh.base_known = run.settings.base_known
    fresh.__class__ = NotedSettings
    _ask(rule, fresh, run, into)


def _ask(rule: Rule, fresh: Settings, run: Run, into: set[str]) -> None:
    """Ask a rule about settings that nobody has asked before: what another rule worked out would not be read again."""
    cast(NotedSettings, fresh).noted = into
    asked = NotedRun(fresh, cast(Context, NotedContext(run.context, into)), run.evidence, run.overrides)
    if rule.reads_findings:
        into.add("@found")
    try:
        list(rule.check(asked))
    except (Unknown, WrongKind):
        pass


def read_all(counts: Sequence[int | None] = GPUS, launchers: Sequence[str | None] = LAUNCHERS) -> dict[str, set[str]]:
    """Slug -> what it reads on recipes alone, over all releases and the launchers and GPU counts given."""
    found: dict[str, set[str]] = defaultdict(set)
    for release in RELEASES:
        held = table(release.name)
        for gpus in counts:
            for launcher in launchers:
                context = resolve_context(Given(release.name, gpus=gpus, launcher=launcher), Given(), ())
                settings = NotedSettings(context, cast(Recipe, RecipeSet(held, held.all)))
                run = Run(settings, context)
                for rule in ALL_RULES:
                    if rule.applies(release) and not isinstance(rule, Worded):
                        read_by(rule, run, held, found[rule.slug])
    return found


def read_on_files(alone: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Slug -> what it reads on files: the cases of the tests, and recorded configurations of each kind and release."""
    found: dict[str, set[str]] = defaultdict(set)
    for run in runs():
        touched = Touched.of_run(run)
        for rule in ALL_RULES:
            if isinstance(rule, Worded):
                continue  # the tables say what it reads
            known = alone[rule.slug]
            # one that reads nothing of what is written reads what it reads alone; a whole configuration has other classes
            if rule.applies(run.release) and (run.complete or ANYTHING & known or any(map(touched.has, known))):
                read_on_file(rule, run, found[rule.slug])
    return found


def runs() -> Iterator[Run]:
    """The runs of the cases and of some recorded configurations."""
    from tests.conformance.rows import KINDS, corpora, read, text_of
    from tests.conftest import load_cases
    from tests.rules.examples import examine_case

    from mbpack.config.document import parse

    for path in sorted((ROOT / "tests" / "rules" / "cases").glob("*.yaml")):
        for case in load_cases(path):
            run = examine_case(case).run
            if run is not None and run.settings.base_known:  # others are asked about over recipes
                yield run
    for path in [path for kind in KINDS for path in corpora(kind)]:
        rows = read(path)
        for row in rows[:: max(1, len(rows) // OF_EACH)]:
            run = judge(Request((parse(text_of(row)),))).run
            if run is not None:
                yield run


def uncovered() -> list[str]:
    """What rules read that the file does not have, a line a rule; rules that it does not know are asked about every file."""
    known = reads()
    asked = {**read_all((8,), ("script",)), **decisive(RELEASES[:1])}
    missing = {slug: sorted(keys - set(known[slug].alone)) for slug, keys in asked.items() if slug in known}
    return [f"{slug}: {' '.join(keys)}" for slug, keys in missing.items() if keys]


def main() -> int:
    if "--covers" in sys.argv[1:]:
        lines = uncovered()
        print("\n".join(lines))
        return int(bool(lines))
    alone = read_all()
    more = read_on_files(alone)
    for slug, keys in decisive().items():
        alone[slug] |= keys
    for rule in ALL_RULES:
        if isinstance(rule, Worded):
            more[rule.slug] |= read_by_tables(rule)
    lines = [
        f"{slug}\t{' '.join(sorted(alone[slug]))}\t{' '.join(sorted(more[slug] - alone[slug]))}\n"
        for slug in sorted({*alone, *more})
    ]
    if "--check" in sys.argv[1:]:
        return int(Path(FILE).read_text(encoding="utf-8") != "".join(lines))
    Path(FILE).write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
