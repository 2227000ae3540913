"""Which keys every rule reads on the recipes of every release with nothing written over them: src/mbpack/rules/reads.tsv.

usage: python tools/rule_reads.py [--check | --covers]

Every rule is asked about all recipes of a release (as `mbpack.engine.split` asks them) under each launcher and several GPU
counts, with settings that note what is asked for. `--check` writes nothing and exits with 1 when the file would change; `--covers` asks under one launcher and GPU count alone,
and exits with 1 when a rule reads what the file does not have.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from mbpack.config.answers import Layer, Setting
from mbpack.config.context import Context, Given, resolve_context
from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.config.settings import Settings, Unknown, WrongKind
from mbpack.engine.reads import EVERYTHING, FILE, reads
from mbpack.engine.split import Part, answers
from mbpack.facts.recipe_sets import RecipeSet, table
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import schema
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES

GPUS = (None, 8, 64, 1024)
LAUNCHERS = (None, "run_recipe", "script")


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

    def mapping(self, key: str) -> dict[str, Setting]:
        self.noted.add(key)
        return super().mapping(key)

    def class_at(self, section: str) -> str | None:
        self.noted.add(section)
        return super().class_at(section)

    def target_at(self, section: str) -> Setting | None:
        self.noted.add(section)
        return super().target_at(section)

    def sections(self) -> Iterator[tuple[str, Item, Layer]]:
        self.noted.add(EVERYTHING)
        return super().sections()

    def __getattribute__(self, name: str) -> Any:
        if name in ("layers", "classes", "recipe_entries", "resolve") and _from_a_rule():
            object.__getattribute__(self, "noted").add(EVERYTHING)
        return object.__getattribute__(self, name)


class NotedContext:
    """A context that notes who asks for what is given beside the files: no two calls need agree on that."""

    def __init__(self, context: Context, into: set[str]) -> None:
        self._context, self._into = context, into

    def __getattr__(self, name: str) -> Any:
        if name in ("step", "nodes", "flags"):
            self._into.add(EVERYTHING)
        return getattr(self._context, name)


class NotedRun(Run):
    """A run that notes who asks for arguments or for what was found on disk."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("overrides", "evidence", "stopped") and "noted" in vars(self.settings):
            cast(NotedSettings, self.settings).noted.add(EVERYTHING)
        return object.__getattribute__(self, name)


def _from_a_rule() -> bool:
    """Whether the caller's caller is no method of the settings themselves."""
    return "config/settings.py" not in sys._getframe(2).f_code.co_filename.replace("\\", "/")


def read_by(rule: Rule, part: Part, into: set[str]) -> None:
    """Ask a rule about a part; its recipes that answer otherwise are asked again."""

    def ask(part: Part) -> None:
        settings = cast(NotedSettings, part.run.settings)
        fresh = settings.on(cast(Recipe, RecipeSet(part.table, part.mask)), forget=True)
        cast(NotedSettings, fresh).noted = into
        context = cast(Context, NotedContext(part.run.context, into))
        run = NotedRun(fresh, context)  # anew: what another rule worked out would not be read again
        try:
            list(rule.check(run))
        except (Unknown, WrongKind):
            pass

    for _ in answers(part, part.mask, ask):
        pass


def read_all(counts: Sequence[int | None] = GPUS, launchers: Sequence[str | None] = LAUNCHERS) -> dict[str, set[str]]:
    """Slug -> keys, over all releases and the launchers and GPU counts given."""
    found: dict[str, set[str]] = defaultdict(set)
    for release in RELEASES:
        held = table(release.name)
        for gpus in counts:
            for launcher in launchers:
                context = resolve_context(Given(release.name, gpus=gpus, launcher=launcher), Given(), ())
                settings = NotedSettings(context, cast(Recipe, RecipeSet(held, held.all)))
                part = Part(held, held.all, Run(settings, context))
                for rule in ALL_RULES:
                    if rule.applies(release):
                        read_by(rule, part, found[rule.slug])
    return found


def uncovered() -> list[str]:
    """What rules read that the file does not have, a line a rule; rules that it does not know are asked about every file."""
    known = reads()
    missing = {
        slug: sorted(keys - set(known[slug]))
        for slug, keys in read_all((8,), ("script",)).items()
        if slug in known and EVERYTHING not in known[slug]
    }
    return [f"{slug}: {' '.join(keys)}" for slug, keys in missing.items() if keys]


def main() -> int:
    if "--covers" in sys.argv[1:]:
        lines = uncovered()
        print("\n".join(lines))
        return int(bool(lines))
    found = read_all()
    lines = [f"{slug}\t{EVERYTHING if EVERYTHING in keys else ' '.join(sorted(keys))}\n" for slug, keys in sorted(found.items())]
    if "--check" in sys.argv[1:]:
        return int(Path(FILE).read_text(encoding="utf-8") != "".join(lines))
    Path(FILE).write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
