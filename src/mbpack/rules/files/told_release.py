"""A release that an old key tells: what the releases after it do with that key."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Layer, Origin, walk
from mbpack.config.shown_release import last_with
from mbpack.facts.keys import modern_name
from mbpack.facts.releases import DEFAULT, R03, R05, RELEASES, Release
from mbpack.rules.base import NOTE, Finding, Fix, Rule


class ToldByOldKey(Rule):
    """A file that names no release and holds a key of an older one is judged as that release.

    The releases after it do not have the key: in an override they drop it with a log line, as a KEY=VALUE argument and in a
    complete file they refuse it, and a class that is gone cannot be made. Whoever trains with a newer release gets another
    answer: name it with `--bridge` or in a comment, and `mbpack migrate` moves the file.

    ## Bad
    ```yaml
    dataset: {packed_sequence_specs: {packed_sequence_size: 4096}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5
    dataset: {packed_sequence_specs: {packed_sequence_size: 4096}}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/utils/omegaconf_utils.py`, `_apply_overrides`; `utils/instantiate_utils.py`
    """

    code, slug = "CFG142", "cfg/told-by-old-key"
    releases = (R03, R05)
    programs = False

    def check(self, run: Run) -> Iterator[Finding]:
        marker = run.context.marker or ""
        last = last_with(marker)
        if run.context.sources.get("bridge") != "file" or last is None or last is not run.release or last >= DEFAULT:
            return
        since = RELEASES[RELEASES.index(last) + 1]
        for layer in run.settings.layers:
            item = walk(layer.root, marker.split("."))
            if item is None and "." in marker:
                continue
            yield self.finding(
                run,
                NOTE,
                marker,
                f"judged as {last} because of {marker}: {since} and later {self._what(layer, since, marker, run.complete)}",
                on_key=True,
                fix=Fix(f"--bridge {DEFAULT} for the answer of {DEFAULT}; `mbpack migrate` moves the file"),
            )
            return

    @staticmethod
    def _what(layer: Layer, since: Release, marker: str, complete: bool) -> str:
        """What happens to the key, and what it is called there."""
        if "." not in marker:
            return "do not have that class and refuse the file"
        done = "refuse it" if complete or layer.origin is Origin.OVERRIDE else "ignore it"
        name = modern_name(since, marker)
        return f"{done}; there it is {name}" if name else f"{done}: they have no such key"


RULES: tuple[Rule, ...] = (ToldByOldKey(),)
