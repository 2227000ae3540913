"""The checkpoint that a run goes on from, as it is found on the disk."""

from __future__ import annotations

from pathlib import Path

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.evidence import SavedRun
from mbpack.inspect.resumed import saved_run

SAVED = "train: {global_batch_size: 64}\ndataset: {packed_sequence_specs: {packed_sequence_size: 4096}}\n"


def looked(folder: Path, text: str) -> SavedRun | None:
    document = parse(text)
    flags = Given(bridge="0.5", recipe="llama3_8b_sft_config", gpus=8, launcher="script")
    context = resolve_context(flags, Given(), [document])
    return saved_run(build_run(context, [document], []), str(folder))


def checkpoint(folder: Path, tracker: str = "500", saved: str = SAVED) -> None:
    place = folder / "run" / "iter_0000500"
    place.mkdir(parents=True)
    (folder / "run" / "latest_checkpointed_iteration.txt").write_text(tracker)
    (place / "run_config.yaml").write_text(saved)


def test_a_saved_run_says_its_packs_and_batch(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    assert looked(tmp_path, "checkpoint: {load: run}") == SavedRun("run", 500, 64, 4096)


def test_packing_that_is_switched_off_is_none(tmp_path: Path) -> None:
    checkpoint(
        tmp_path, saved=SAVED.replace("dataset: {", "dataset: {enable_offline_packing: false, enable_in_batch_packing: true, ")
    )
    assert looked(tmp_path, "checkpoint: {load: run}") == SavedRun("run", 500, 64, None, True)


def test_nothing_where_the_run_starts_anew(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    assert looked(tmp_path, "checkpoint: {load: run, finetune: true}") is None
    assert looked(tmp_path, "train: {train_iters: 5}") is None
    assert looked(tmp_path, "checkpoint: {load: elsewhere}") is None


def test_a_tracker_or_configuration_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    checkpoint(tmp_path, tracker="release")
    assert looked(tmp_path, "checkpoint: {load: run}") is None
    (tmp_path / "run" / "latest_checkpointed_iteration.txt").write_text("500")
    (tmp_path / "run" / "iter_0000500" / "run_config.yaml").write_text("a: [")
    assert looked(tmp_path, "checkpoint: {load: run}") in (None, SavedRun("run", 500))
