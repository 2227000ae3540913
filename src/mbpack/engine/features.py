"""Which upstream features a run uses, for the test commands that cover them."""

from __future__ import annotations

from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.modes import IN_BATCH
from mbpack.facts.upstream_tests import CONTEXT_PARALLEL, DEFERRED, commands


def used_features(run: Run) -> set[str]:
    """The features a run certainly uses."""
    features: set[str] = set()
    try:
        mode = run.mode
        features.add(mode.name)
        if mode is IN_BATCH and run.flag("dataset.defer_in_batch_packing_to_step"):
            features.add(DEFERRED)
    except (Unknown, WrongKind):
        pass
    try:
        if run.cp > 1:
            features.add(CONTEXT_PARALLEL)
    except (Unknown, WrongKind):
        pass
    return features


def test_commands(run: Run) -> list[str]:
    """The pytest commands, to be run in a checkout of the run's release, that cover what the run uses."""
    return [selection.command for selection in commands(run.release.name, used_features(run)) if selection.gpus == 0]
