"""What is collected for a configuration, and the builder's own names."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.inspect import collect
from mbpack.inspect.places import own_directory, own_fingerprint
from tests.inspect.packs import entry, metadata, row, write

ROWS = [row((3, 1), (4, 2))] * 5
GPT_SFT = "megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig"
SPECS = "{_target_: megatron.bridge.data.packing.config.PackedSequenceSpecs, packed_sequence_size: %s%s}"


def run_of(text: str, bridge: str = "0.6", recipe: str | None = "llama3_8b_sft_config", launcher: str = "script") -> Run:
    documents = [parse(text)]
    return build_run(resolve_context(Given(bridge, recipe, 8, launcher), Given(), documents), documents)


def complete(dataset: str) -> Run:
    text = f"_target_: megatron.bridge.training.config.ConfigContainer\ndataset:\n  _target_: {GPT_SFT}\n"
    return run_of(text + "".join(f"  {line}\n" for line in dataset.splitlines()), recipe=None)


@pytest.mark.parametrize(
    ("run", "recorded"),
    [
        (
            complete(
                "seq_length: 4096\ndataset_root: d\nenable_offline_packing: true\noffline_packing_specs: " + SPECS % (4096, "")
            ),
            "7e34511314ea",
        ),
        (run_of("train: {train_iters: 5}"), "901d57a7dff5"),
        (
            complete(
                "seq_length: 8192\nseed: 5678\n"
                "hf_dataset: {_target_: megatron.bridge.data.sources.hf.HFDatasetSourceConfig, dataset_name: squad}\n"
                "preprocessing: {_target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig,"
                " loss_mode: last_turn}\n"
                "dataset_kwargs: {pad_to_max_length: true, tool_schemas: [{a: 1}]}\n"
                "offline_packing_specs: " + SPECS % (8192, ", max_single_sequence_length: 4096")
            ),
            "99f9141d2d4d",
        ),
        (
            complete(
                "seq_length: 4096\n"
                "hf_dataset: {_target_: megatron.bridge.data.sources.hf.HFDatasetSourceConfig, dataset_name: squad}\n"
                "offline_packing_specs: " + SPECS % (4096, "")
            ),
            "f9388ce35fb2",
        ),
    ],
    ids=["local", "recipe", "chat", "legacy-hf"],
)
def test_fingerprints_equal_those_recorded_from_the_published_package(run: Run, recorded: str) -> None:
    assert own_fingerprint(run) == recorded


def test_directory_names_per_release_and_launcher() -> None:
    model = "meta-llama--Meta-Llama-3-8B"
    assert own_directory(run_of("{}", "0.5")) == f"{model}_pad_seq_to_mult1"
    assert own_directory(run_of("{}")) == f"{model}_pad_seq_to_mult1_sft_901d57a7dff5"
    split = "model: {context_parallel_size: 2}"
    assert own_directory(run_of(split, launcher="run_recipe")) == f"{model}_pad_seq_to_mult4_sft_901d57a7dff5"
    assert own_directory(run_of(split)) == f"{model}_pad_seq_to_mult1_sft_901d57a7dff5"
    assert own_directory(run_of("dataset: {seed: '${oc.env:SEED}'}")) is None
    named = "dataset: {packed_sequence_specs: {tokenizer_model_name: mine}}"
    assert own_directory(run_of(named, "0.5")) == "mine_pad_seq_to_mult1"


def test_explicit_paths_and_their_metadata(tmp_path: Path) -> None:
    write(tmp_path / "packs/training_4096.idx.parquet", ROWS)
    metadata(tmp_path / "packs/m.jsonl", entry(4096, 2, 4))
    found = collect(
        run_of(
            "dataset: {offline_packing_specs: {packed_train_data_path: packs/training_4096.idx.parquet,"
            " packed_val_data_path: packs/validation_4096.idx.parquet, packed_metadata_path: packs/m.jsonl}}"
        ),
        str(tmp_path),
    )
    assert found.rows() == 5
    assert found.split("validation").missing
    assert found.metadata.numbers("max_samples_per_bin") == [2]
    with pytest.raises(Unknown) as unread:
        found.statistics()
    assert unread.value.needs == ("filesystem",)


def test_rows_are_read_only_when_asked(tmp_path: Path) -> None:
    write(tmp_path / "p.parquet", ROWS)
    run = run_of("dataset: {offline_packing_specs: {packed_train_data_path: p.parquet}}")
    assert collect(run, str(tmp_path)).split("training").statistics is None
    assert collect(run, str(tmp_path), full=True).statistics().lengths == {3: 5, 4: 5}


def test_the_builders_own_place(tmp_path: Path) -> None:
    root = "dataset: {dataset_root: data, hf_dataset: null, hf_validation_proportion: null}"
    run = run_of(root)
    own = own_directory(run)
    assert own is not None
    (tmp_path / "data").mkdir()
    (tmp_path / "data/training.jsonl").write_text('{"a": 1}\n{"a": 2}\n{"a": 3}')
    empty = collect(run, str(tmp_path))
    assert empty.split("training").missing
    assert (empty.raw.lines, empty.raw.training, empty.raw.validation) == (3, True, False)
    assert not empty.metadata_file
    write(tmp_path / "data/packed" / own / "training_4096.idx.parquet", ROWS)
    write(tmp_path / "data/packed/other_pad_seq_to_mult1_sft_0123456789ab/training_4096.idx.parquet", ROWS)
    metadata(tmp_path / "data/packed" / own / "4096_metadata.jsonl", entry(4096, 2, 4))
    found = collect(run, str(tmp_path))
    assert found.rows() == 5
    assert not found.split("training").explicit
    assert found.metadata.exists
    assert (found.own_directory, found.other_directories) == (own, ("other_pad_seq_to_mult1_sft_0123456789ab",))


def test_the_builders_place_without_the_tokenizers_name(tmp_path: Path) -> None:
    root = "{dataset_root: data, hf_dataset: null, hf_validation_proportion: null, seed: '${oc.env:SEED}'}"
    run = run_of(f"dataset: {root}")
    assert own_directory(run) is None
    (tmp_path / "data").mkdir()
    assert collect(run, str(tmp_path)).split("training").missing
    write(tmp_path / "data/packed/one_pad_seq_to_mult1_sft_0123456789ab/training_4096.idx.parquet", ROWS)
    assert collect(run, str(tmp_path)).rows() == 5
    write(tmp_path / "data/packed/two_pad_seq_to_mult1_sft_0123456789ab/training_4096.idx.parquet", ROWS)
    assert "training" not in collect(run, str(tmp_path)).packs


def test_what_cannot_be_seen_is_not_looked_at(tmp_path: Path) -> None:
    nowhere = run_of("dataset: {offline_packing_specs: {packed_train_data_path: elsewhere/p.parquet}}")
    found = collect(nowhere, str(tmp_path))
    with pytest.raises(Unknown):
        found.split("training")
    with pytest.raises(Unknown):
        _ = found.metadata
    with pytest.raises(Unknown):
        _ = found.raw
    with pytest.raises(Unknown):
        _ = found.lengths
    unknown = run_of("dataset: {offline_packing_specs: {packed_train_data_path: '${oc.env:PACKS}/p.parquet'}}")
    assert collect(unknown, str(tmp_path)).packs == {}
    unpacked = run_of("dataset: {enable_offline_packing: false, offline_packing_specs: null}")
    assert collect(unpacked, str(tmp_path)).packs == {}
