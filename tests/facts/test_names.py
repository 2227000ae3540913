"""What releases call things: keys, options, targets, sections, commands, files; and version texts."""

from __future__ import annotations

import pytest

from mbpack.facts import artifacts, commands, modes, sections
from mbpack.facts.keys import RENAMES, modern_name, path_in, rename_of, specs_target
from mbpack.facts.launchers import FLAGS, SWITCHES, flag_in, flags_named, model_recipe
from mbpack.facts.migration import BEHAVIOUR, CLASS_CHANGES
from mbpack.facts.pitfalls import PITFALLS
from mbpack.facts.releases import (
    NIGHTLY,
    R03,
    R04,
    R05,
    R06,
    R07,
    RELEASES,
    Release,
    UnknownReleaseError,
    parse_version,
    version_of,
)
from mbpack.facts.schema import schema
from mbpack.facts.targets import is_blocked
from mbpack.facts.wrappers import is_wrapper_key

# ---------------------------------------------------------------------- releases


def test_releases_are_ordered_by_time() -> None:
    for place, release in enumerate(RELEASES):
        for other_place, other in enumerate(RELEASES):
            assert (release < other) is (place < other_place)
            assert (release > other) is (place > other_place)
            assert (release <= other) is (place <= other_place)
            assert (release >= other) is (place >= other_place)
            assert (release == other) is (place == other_place)


@pytest.mark.parametrize(
    ("text", "release", "patch", "exact"),
    [
        ("0.6", R06, "0.6.2", False),
        ("0.6.2", R06, "0.6.2", True),
        ("0.6.0", R06, "0.6.0", True),
        ("v0.5.0", R05, "0.5.0", True),
        (" 0.4.1 ", R04, "0.4.1", True),
        ("0.3", R03, "0.3.1", False),
        ("0.7.0rc1", R07, "0.7.0", True),
        ("0.7rc1", R07, "0.7.1", False),
        ("nightly", NIGHTLY, "nightly", False),
        ("Main", NIGHTLY, "nightly", False),
    ],
)
def test_version_texts(text: str, release: Release, patch: str, exact: bool) -> None:
    version = parse_version(text)
    assert (version.release, version.patch, version.exact) == (release, patch, exact)


@pytest.mark.parametrize(
    ("text", "words"),
    [("0.2", "older than"), ("0.1.3", "older than"), ("0.9", "not known"), ("1.6", "not known"), ("six", "not a"), ("", "not a")],
)
def test_texts_that_name_no_release(text: str, words: str) -> None:
    with pytest.raises(UnknownReleaseError, match=words):
        parse_version(text)


def test_a_line_stands_for_its_newest_patch() -> None:
    assert [version_of(release).patch for release in RELEASES] == ["0.3.1", "0.4.2", "0.5.1", "0.6.2", "0.7.1", "nightly"]


# ---------------------------------------------------------------------- keys


def has(release: Release, path: str) -> bool:
    """Whether a section class of the release has the field (packing specs: whether any dataset class has)."""
    section, _, name = path.partition(".")
    known = schema(release.name)
    if section == "dataset":
        return name in known.any_dataset_fields()
    if section == "model":
        return name in known.any_model_fields()
    cls = known.section_class(section)
    return cls is not None and name in (known.fields(cls) or {})


@pytest.mark.parametrize("rename", RENAMES, ids=lambda rename: rename.new)
@pytest.mark.parametrize("release", [R03, R04, R05, R06, R07])
def test_a_release_has_the_name_that_the_rename_says(release: Release, rename: object) -> None:
    assert has(release, rename.new) is (release >= rename.since)
    until = rename.old_works_until
    old_works = release < rename.since or (until is not None and release <= until)
    if old_works:
        assert has(release, rename.old)


@pytest.mark.parametrize(
    ("release", "written", "modern"),
    [
        (R06, "dataset.packed_sequence_specs", "dataset.offline_packing_specs"),
        (R06, "dataset.packed_sequence_specs.pad_seq_to_mult", "dataset.offline_packing_specs.pad_seq_to_mult"),
        (R05, "dataset.packed_sequence_specs.pad_seq_to_mult", None),
        (R05, "dataset.offline_packing_specs.pad_seq_to_mult", "dataset.packed_sequence_specs.pad_seq_to_mult"),
        (R05, "dataset.offline_packing_specs", "dataset.packed_sequence_specs"),
        (R05, "dataset.enable_offline_packing", "dataset.packed_sequence_specs"),
        (R06, "dataset.enable_offline_packing", None),
        (R06, "dataset.packed_sequence_specs_too", None),
        (R04, "train.eval_iters", None),
        (R07, "train.eval_iters", None),
        (NIGHTLY, "train.eval_iters", "validation.eval_iters"),
        (R03, "validation.eval_iters", "train.eval_iters"),
        (R03, "train.eval_iters", None),
        (NIGHTLY, "model.cuda_graph_scope", None),
        (R04, "model.cuda_graph_modules", "model.cuda_graph_scope"),
    ],
)
def test_names_of_the_other_generation(release: Release, written: str, modern: str | None) -> None:
    assert modern_name(release, written) == modern
    assert (rename_of(release, written) is None) is (modern is None)


@pytest.mark.parametrize("release", RELEASES)
def test_canonical_names_in_a_release(release: Release) -> None:
    old = release < R06
    specs = "dataset.packed_sequence_specs" if old else "dataset.offline_packing_specs"
    assert path_in(release, "dataset.offline_packing_specs") == specs
    assert path_in(release, "dataset.offline_packing_specs.pad_seq_to_mult") == f"{specs}.pad_seq_to_mult"
    assert path_in(release, "dataset.offline_packing_specs_too") == "dataset.offline_packing_specs_too"
    assert path_in(release, "model.cuda_graph_modules") == "model.cuda_graph_modules"
    assert path_in(release, "validation.eval_iters") == ("train.eval_iters" if release == R03 else "validation.eval_iters")
    assert ("data.datasets" in specs_target(release)) is old


# ---------------------------------------------------------------------- options of run_recipe.py

#: What ``run_recipe.py --help`` of a release offers.
EARLY = {"--recipe", "--mode", "--step_func", "--step-func", "--peft_scheme", "--packed_sequence", "--seq_length"}
LATE = set(
    "--recipe --model --mode --step_func --step-func --dataset --seq_length -sl --max_steps -ms --global_batch_size -gb"
    " --micro_batch_size -mb --tensor_model_parallel_size -tp --pipeline_model_parallel_size -pp --context_parallel_size -cp"
    " --virtual_pipeline_model_parallel_size -vp --expert_model_parallel_size -ep --expert_tensor_parallel_size -etp --lr"
    " --min_lr --warmup_iters --pretrained_checkpoint --save_dir --load_dir --save_interval".split()
) | SWITCHES & {"--dry-run", "--dry_run", "--deterministic", "--dump-env", "--dump_env"}
OPTIONS = {
    R03: EARLY,
    R04: EARLY | {"--hf_path", "--dataset"},
    R05: EARLY | {"--hf_path", "--dataset"},
    R06: LATE,
    R07: LATE,
}
NO_VALUE = {"--packed_sequence", "--dry-run", "--dry_run", "--deterministic", "--dump-env", "--dump_env"}


@pytest.mark.parametrize("release", list(OPTIONS))
def test_options_of_a_release(release: Release) -> None:
    every = {name for flag in FLAGS for name in flag.names}
    assert {name for name in every if flag_in(release, name)} == OPTIONS[release]
    assert len([flag for flag in FLAGS if "--seq_length" in flag.names]) == 2


def test_which_options_take_a_value() -> None:
    assert {name for flag in FLAGS if not flag.takes_value for name in flag.names} == NO_VALUE
    assert NO_VALUE <= SWITCHES


def test_options_that_no_release_has() -> None:
    assert flags_named("--no-such-option") == ()
    assert flag_in(R06, "--no-such-option") is None
    assert flag_in(R06, "--seq_length").sets == "dataset.seq_length"
    assert flag_in(R05, "--seq_length").sets is None


@pytest.mark.parametrize(("mode", "task"), [("sft", "sft"), ("lora", "peft"), ("dora", "peft"), ("pretrain", "pretrain")])
def test_model_and_mode_select_a_recipe(mode: str, task: str) -> None:
    assert model_recipe("llama3_8b", mode) == f"llama3_8b_{task}_config"
    assert model_recipe("llama3_8b", "distill") is None


# ---------------------------------------------------------------------- sections, targets, wrappers


@pytest.mark.parametrize("release", RELEASES)
def test_where_a_start_up_without_a_section_stops(release: Release) -> None:
    assert sections.stops_at(release, "validation") == ("section:validation" if release >= R05 else None)
    assert sections.stops_at(release, "dist") == ("section:dist" if release >= R06 else "fsdp/per-token")
    assert sections.stops_at(release, "env_vars") == ("load" if release >= R06 else None)
    assert sections.stops_at(release, "model") == "section:model@start"
    assert sections.stops_at(release, "peft") is None
    assert "dataset" in sections.required(release)


@pytest.mark.parametrize(
    ("target", "blocked_in"),
    [
        ("megatron.bridge.training.config.TrainingConfig", ()),
        ("torch.float32", ()),
        ("os.system", (R04, R05, R06, R07)),
        ("functools.partial", (R04,)),
        ("signal.Signals", (R04,)),
        ("torch.load", (R05, R06, R07)),
        ("numpy.load", (R05, R06, R07)),
        ("transformers.AutoTokenizer.from_pretrained", (R05, R06, R07)),
        ("torch._C._nn.gelu", ()),
        ("torch._C.other", (R05, R06, R07)),
        ("megatron_other.thing", (R04, R05, R06, R07)),
    ],
)
def test_targets_that_a_release_refuses(target: str, blocked_in: tuple[Release, ...]) -> None:
    assert tuple(release for release in (R03, R04, R05, R06, R07) if is_blocked(release, target)) == blocked_in


@pytest.mark.parametrize(
    ("path", "wrapper"),
    [
        ("wandb.project", True),
        ("slurm", True),
        ("dataset.super_packed_sft_dir", True),
        ("dataset.dataset_name", True),
        ("dataset.split", True),
        ("dataset.split.more", False),
        ("dataset.seq_length", False),
        ("model.dataset_name", False),
    ],
)
def test_keys_of_wrapper_programs(path: str, wrapper: bool) -> None:
    assert is_wrapper_key(path) is wrapper


# ---------------------------------------------------------------------- commands and files


def test_commands_of_a_release() -> None:
    old, new = (commands.convert_command(release, "org/model", "out") for release in (R05, R06))
    assert "convert_checkpoints.py import" in old
    assert "convert.sh import" in new
    assert commands.step_module("qwen3_vl_step").endswith("models.qwen_vl.qwen3_vl_step")
    assert commands.step_module("gpt_step") == "megatron.bridge.training.gpt_step"
    names = [commands.builder_import(release, hf)[1] for release in (R05, R06) for hf in (False, True)]
    assert names == ["FinetuningDatasetBuilder", "HFDatasetBuilder", "GPTSFTDatasetBuilder", "GPTSFTDatasetBuilder"]


@pytest.mark.parametrize("release", RELEASES)
def test_names_on_disk(release: Release) -> None:
    digits = "0123456789ab"
    expected = f"tok_pad_seq_to_mult8_sft_{digits}" if release >= R06 else "tok_pad_seq_to_mult8"
    directory = artifacts.pack_directory(release, "tok", 8, digits)
    file = artifacts.pack_file(release, "training", 4096)
    assert directory == expected
    assert file == ("training_4096.npy" if release == R03 else "training_4096.idx.parquet")
    found = artifacts.read_location(f"/data/packed/{directory}/{file}")
    assert found == artifacts.Location(8, 4096, "training", digits if release >= R06 else None)
    assert artifacts.glob_characters(release) == ("*?[" if release >= R07 else "*?")


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("training_4096.idx.parquet", (None, 4096, "training", None)),
        ("VALIDATION_2048.pq", (None, 2048, "validation", None)),
        ("a_pad_seq_to_mult4/b_pad_seq_to_mult8/training_1.npy", (8, 1, "training", None)),
        ("a_pad_seq_to_mult4/other/training_1.npy", (4, 1, "training", None)),
        ("tok_pad_seq_to_multNone/rows.parquet", (None, None, None, None)),
        ("tok_pad_seq_to_mult16_sft_0123456789abcdef/x.parquet", (16, None, None, None)),
        (r"C:\packed\tok_pad_seq_to_mult16\training_8.npy", (16, 8, "training", None)),
    ],
)
def test_what_a_path_says(path: str, location: tuple[object, ...]) -> None:
    assert artifacts.read_location(path) == location


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("meta-llama/Llama-3-8B", "meta-llama--Llama-3-8B"),
        ("gpt2", "gpt2"),
        ("/ckpt/org/model/context/nemo_tokenizer", "org--model"),
        ("/ckpt/org/model/nemo_tokenizer", "org--model"),
    ],
)
def test_a_tokenizer_as_a_directory(path: str, name: str) -> None:
    assert artifacts.tokenizer_directory(path) == name


def test_counts_of_packed_rows() -> None:
    assert [artifacts.steps_per_epoch(10, 4, keeps) for keeps in (True, False)] == [3, 2]
    assert artifacts.steps_per_epoch(8, 4, True) == 2
    assert artifacts.packed_batches(64, 4.0, 8) == [16]
    assert artifacts.packed_batches(64, 3.0, 8) == [16, 24]
    assert artifacts.packed_batches(12, 3.0, 8) == [8]
    assert artifacts.packed_batches(8, 4.0, 8) == [8]
    assert artifacts.packed_batches(68, 2.0, 8) == [32, 40]
    assert artifacts.metadata_file(4096) == "4096_metadata.jsonl"
    assert len(artifacts.fingerprint({"a": 1})) == 12
    assert artifacts.fingerprint({"a": 1, "b": 2}) == artifacts.fingerprint({"b": 2, "a": 1})


# ---------------------------------------------------------------------- modes, pitfalls, migration


def test_modes_and_their_first_release() -> None:
    first = {name: mode.since for name, mode in modes.MODES.items()}
    assert first == {"offline": R03, "in_batch": R03, "energon": R07, "global_batch": R07, "none": R03}


def test_pitfalls_are_numbered_through() -> None:
    assert [pitfall.number for pitfall in PITFALLS] == list(range(1, 14))


def test_what_a_release_does_otherwise() -> None:
    since = {release: [b.concerns for b in BEHAVIOUR if b.since is release] for release in RELEASES}
    assert [len(since[release]) for release in (R03, R04, R05, R06, R07)] == [0, 2, 1, 7, 7]
    assert since[R05] == ["offline"]
    assert {change.since for change in CLASS_CHANGES} == {R06}
    for change in CLASS_CHANGES:
        assert schema("0.6").class_of(change.new) == change.new_name()
        assert schema("0.5").class_of(change.old) == change.old_name()
