"""Configurations moved between releases."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml

from mbpack.cli.main import run
from mbpack.config.context import ContextError
from mbpack.config.document import parse
from mbpack.engine.doctor import examine
from mbpack.facts.keys import RENAMES, modern_name
from mbpack.facts.releases import R05, R06
from mbpack.fix.migrate import Migration, migrate
from mbpack.fix.state import State

DATA = Path(__file__).parent.parent / "data"
OLD = (
    "# mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
    "train:\n  global_batch_size: 16\n"
    "dataset:\n"
    "  _target_: megatron.bridge.training.config.FinetuningDatasetConfig\n"
    "  seq_length: 4096  # as the model\n"
    "  dataset_root: data/sft\n"
    "  packed_sequence_specs:\n"
    "    # for one topology\n"
    "    _target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs\n"
    "    packed_sequence_size: 4096\n"
    "    num_tokenizer_workers: -1\n"
)


def move(text: str, to: str, source: str | None = None) -> Migration:
    return migrate(State((parse(text),)), to, source)


def text_of(made: Migration) -> str:
    return made.state.documents[0].text


def slugs(text: str) -> set[str]:
    return {finding.rule.slug for finding in examine([parse(text)]).findings if finding.outcome.severity != "info"}


def test_a_file_of_0_5_is_silently_ignored_in_0_6_and_comes_out_clean() -> None:
    stale = OLD.replace("bridge=0.5", "bridge=0.6")
    found = [f for f in examine([parse(stale)]).findings if f.rule.slug == "cfg/renamed-key"]
    assert [f.setting.key for f in found] == ["dataset.packed_sequence_specs"]
    assert found[0].outcome.consequence == "ignored"
    made = move(stale, "0.6")
    assert slugs(text_of(made)) == set()
    assert text_of(made) == (
        "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
        "train:\n  global_batch_size: 16\n"
        "dataset:\n"
        "  seq_length: 4096  # as the model\n"
        "  dataset_root: data/sft\n"
        "  hf_dataset: null\n"
        "  hf_validation_proportion: null\n"
        "  enable_offline_packing: true\n"
        "  offline_packing_specs:\n"
        "    # for one topology\n"
        "    _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs\n"
        "    packed_sequence_size: 4096\n"
        "    num_tokenizer_workers: 16\n"
    )
    assert any("_sft_<hash>" in text for text in made.different)
    assert move(text_of(made), "0.6").state.texts == made.state.texts


SPECS = (
    "packed_sequence_size: 4096",
    "tokenizer_model_name: mine",
    "num_tokenizer_workers: 8",
    "packed_train_data_path: data/a.parquet",
    "packed_val_data_path: data/b.parquet",
    "packed_metadata_path: data/m.jsonl",
    "pad_cu_seqlens: true",
    "pad_seq_to_mult: 8",
)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("target", [False, True])
def test_every_packing_key_comes_back_as_it_was(newline: str, flow: bool, target: bool) -> None:
    entries = [*(["_target_: megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs"] if target else []), *SPECS]
    specs = (
        [f"  packed_sequence_specs: {{{', '.join(entries)}}}"]
        if flow
        else ["  packed_sequence_specs:  # size", *(f"    {e}" for e in entries)]
    )
    lines = [
        "# mbpack: bridge=0.5 gpus=8",
        "dataset:",
        "  seq_length: 4096",
        *specs,
        "  rewrite: true",
        "model: {cuda_graph_scope: [mlp]}",
    ]
    text = newline.join(lines) + newline
    there = move(text, "0.6")
    assert "packed_sequence_specs" not in text_of(there)
    assert not {"cfg/renamed-key", "cfg/yaml-unknown-key"} & slugs(text_of(there))
    assert text_of(move(text_of(there), "0.5")) == text


@pytest.mark.parametrize("value", ["true", "false"])
def test_in_batch_packing_comes_back(value: str) -> None:
    text = f"# mbpack: bridge=0.5\ndataset: {{pack_sequences_in_batch: {value}}} # vlm\n"
    there = text_of(move(text, "0.6"))
    assert f"enable_in_batch_packing: {value}" in there
    assert text_of(move(there, "0.5")) == text


def test_packing_switched_off_stays_off_both_ways() -> None:
    there = move("# mbpack: bridge=0.5\ndataset:\n  packed_sequence_specs: null\n", "0.6")
    assert yaml.safe_load(text_of(there)) == {"dataset": {"enable_offline_packing": False, "offline_packing_specs": None}}
    back = move(text_of(there), "0.5")
    assert text_of(back) == "# mbpack: bridge=0.5\ndataset:\n  packed_sequence_specs: null\n"


def test_a_size_that_meant_no_packing() -> None:
    made = move("# mbpack: bridge=0.5\ndataset:\n  packed_sequence_specs:\n    packed_sequence_size: -1\n", "0.6")
    assert yaml.safe_load(text_of(made)) == {"dataset": {"enable_offline_packing": False, "offline_packing_specs": None}}


def test_evaluation_settings_move_and_come_back() -> None:
    text = "# mbpack: bridge=0.3\ntrain:\n  train_iters: 10\n  eval_iters: 4 # few\n  eval_interval: 50\n"
    there = text_of(move(text, "0.6"))
    assert yaml.safe_load(there) == {"train": {"train_iters": 10}, "validation": {"eval_iters": 4, "eval_interval": 50}}
    assert "eval_iters: 4 # few" in there
    back = text_of(move(there, "0.3"))
    assert yaml.safe_load(back) == yaml.safe_load(text)


def test_hub_data_get_a_source_of_their_own() -> None:
    text = (
        "# mbpack: bridge=0.5\ndataset:\n  _target_: megatron.bridge.data.builders.hf_dataset.HFDatasetConfig\n"
        "  dataset_name: squad\n  split: train\n  val_proportion: 0.1\n  dataset_root: data/squad\n  seq_length: 2048\n"
    )
    made = move(text, "0.6")
    assert yaml.safe_load(text_of(made)) == {
        "dataset": {
            "_target_": "megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig",
            "hf_dataset": {
                "_target_": "megatron.bridge.data.sources.hf.HFDatasetSourceConfig",
                "dataset_name": "squad",
                "split": "train",
            },
            "hf_validation_proportion": 0.1,
            "hf_output_root": "data/squad",
            "seq_length": 2048,
        }
    }
    assert not any("process_example_fn" in text or "hf_filter_lambda" in text for text in made.decide)


def test_graph_names_of_0_5_are_taken_back() -> None:
    made = move("# mbpack: bridge=0.6\nmodel: {cuda_graph_impl: full_iteration}\n", "0.4")
    assert yaml.safe_load(text_of(made)) == {"model": {"cuda_graph_impl": "local", "cuda_graph_scope": "full_iteration"}}


ROUTES = [
    ("0.3", "0.4"),
    ("0.3", "0.6"),
    ("0.4", "0.6"),
    ("0.5", "0.6"),
    ("0.6", "0.7"),
    ("0.6", "0.5"),
    ("0.5", "0.3"),
    ("0.7", "0.5"),
]


@pytest.mark.parametrize(("source", "target"), ROUTES)
def test_recorded_configurations_load_in_another_release(source: str, target: str) -> None:
    """Complete files are loaded strictly: after a migration no key and no class is unknown."""
    with gzip.open(DATA / "verdicts" / f"{source}-reference.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for _, line in zip(range(60), lines, strict=False)][::15]
    for row in rows:
        if row["check"] == "cfg/yaml-unknown-key":
            continue
        text = yaml.safe_dump(row["config"], sort_keys=False)
        made = migrate(State((parse(text),)), target, source)
        after = text_of(made)
        found = examine([parse(f"# mbpack: bridge={target} gpus={row['gpus']} launcher=script\n{after}")]).findings
        assert not [f.message for f in found if f.rule.slug in ("cfg/yaml-unknown-key", "cfg/renamed-key")]


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(
        "migrate --to 0.6 --from 0.5 dataset.packed_sequence_specs.packed_sequence_size=4096 "
        "dataset.packed_sequence_specs.num_tokenizer_workers=-1 train.train_iters=5".split()
    )
    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "dataset.offline_packing_specs.packed_sequence_size=4096",
        "dataset.offline_packing_specs.num_tokenizer_workers=16",
        "train.train_iters=5",
        "dataset.enable_offline_packing=true",
    ]


def test_a_launch_script_gives_its_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "launch.sh"
    text = (
        "torchrun scripts/training/run_recipe.py --recipe llama3_8b_sft_config dataset.packed_sequence_specs.pad_seq_to_mult=4\n"
    )
    script.write_text(text)
    assert run(["migrate", str(script), "--to", "0.6"]) == 0
    assert script.read_text() == text
    assert capsys.readouterr().out.splitlines() == [
        "dataset.offline_packing_specs.pad_seq_to_mult=4",
        "dataset.enable_offline_packing=true",
    ]


def test_command_writes_diffs_and_backs_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(OLD)
    assert run(["migrate", str(path), "--to", "0.6", "--diff"]) == 1
    assert path.read_text() == OLD
    assert "+  offline_packing_specs:" in capfd.readouterr().out
    other = tmp_path / "b.yaml"
    assert run(["migrate", str(path), "--to", "0.6", "--output", str(other)]) == 0
    assert path.read_text() == OLD
    assert run(["migrate", str(path), "--to", "0.6", "--backup"]) == 0
    assert path.read_text() == other.read_text()
    assert (tmp_path / "a.yaml.bak").read_text() == OLD
    out = capfd.readouterr().out
    assert "behaves differently" in out
    assert "to decide" in out
    assert run(["migrate", str(path), "--to", "0.6", "--diff"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{file}", "--to", "0.9"], "0.9"),
        (["{file}", "--to", "0.6"], "--from"),
        (["{broken}", "--to", "0.6"], "line 1"),
        (["{file}", "a.b=1", "--to", "0.6"], "not both"),
        (["nothing.yaml", "--to", "0.6"], "no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.yaml").write_text("optimizer: {lr: 1e-5}\n")
    (tmp_path / "broken.yaml").write_text("a: [")
    named = [text.format(file=tmp_path / "file.yaml", broken=tmp_path / "broken.yaml") for text in arguments]
    assert run(["migrate", *named]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_every_rename_has_a_name_on_both_sides() -> None:
    for rename in RENAMES:
        if rename.since is R06:
            assert modern_name(R06, rename.old) == rename.new
            assert modern_name(R05, rename.new) == rename.old


def test_without_a_release_nobody_guesses() -> None:
    with pytest.raises(ContextError, match="--from"):
        move("optimizer: {lr: 1e-5}\n", "0.6")


@pytest.mark.parametrize(
    ("kwargs", "preprocessing"),
    [
        (
            "    chat: true\n    use_hf_tokenizer_chat_template: true\n",
            "    _target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig\n    loss_mode: assistant\n",
        ),
        (
            "    add_bos: true\n    answer_only_loss: false\n",
            "    _target_: megatron.bridge.data.sft_processing.PromptCompletionSFTPreprocessingConfig\n"
            "    prompt_column: input\n    completion_column: output\n    separator: ' '\n    add_bos: true\n"
            "    loss_mode: full\n",
        ),
    ],
)
def test_what_rows_are_moves_to_preprocessing_and_back(kwargs: str, preprocessing: str) -> None:
    old = (
        "# mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
        f"dataset:\n  dataset_root: data/sft\n  dataset_kwargs:\n    pad_to_max_length: true\n{kwargs}"
    )
    made = move(old, "0.6")
    new = yaml.safe_load(text_of(made))["dataset"]
    assert new["preprocessing"] == yaml.safe_load(preprocessing)
    assert new["dataset_kwargs"] == {"pad_to_max_length": True}
    back = yaml.safe_load(text_of(move(text_of(made), "0.5")))["dataset"]
    assert back["dataset_kwargs"] == {"pad_to_max_length": True, **yaml.safe_load(kwargs)}
    assert "preprocessing" not in back


def test_a_template_of_its_own_is_left_to_the_user() -> None:
    old = (
        "# mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
        "dataset:\n  dataset_root: data/sft\n  dataset_kwargs: {prompt_template: 'Q {input} A {output}'}\n"
    )
    made = move(old, "0.6")
    assert any("compare the tokens" in text for text in made.decide)
    assert "prompt_template" in text_of(made)
