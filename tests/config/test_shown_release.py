"""The release that a configuration shows when nobody names one."""

from __future__ import annotations

import pytest

from mbpack.config.context import Given
from mbpack.config.document import Document, parse
from mbpack.config.overrides import parse_overrides
from mbpack.config.shell import read_launch
from mbpack.engine.doctor import Request, context_of, judge
from mbpack.facts import recipes
from mbpack.facts.schema import schema

RUN = "torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config "


def shown(request: Request) -> tuple[str, str | None]:
    context = context_of(request)
    return context.version.release.name, context.marker


def in_script(command: str) -> Request:
    return Request(launch=read_launch(command + "\n"), script=Document("train.sh", command + "\n", None))


@pytest.mark.parametrize(
    ("command", "release", "marker"),
    [
        (RUN + "dataset.pack_sequences_in_batch=true", "0.5", "dataset.pack_sequences_in_batch"),
        (RUN + "dataset.maker_name=cord_v2", "0.5", "dataset.maker_name"),
        (RUN + "--packed_sequence", "0.5", "--packed_sequence"),
        (RUN + "-tp 2", "0.6", "-tp"),
        (RUN + "dataset.enable_global_batch_packing=true", "0.7", "dataset.enable_global_batch_packing"),
        (RUN + "train.train_iters=5", "0.6", ""),
    ],
)
def test_by_what_a_launch_sets(command: str, release: str, marker: str) -> None:
    assert shown(in_script(command)) == (release, marker)


def test_options_of_another_program_show_nothing() -> None:
    assert shown(in_script("torchrun finetune.py --packed_sequence --config-file a.yaml model.seq_length=5")) == ("0.6", "")


def test_by_arguments_beside_a_file() -> None:
    request = Request([parse("train: {train_iters: 5}\n")], overrides=parse_overrides(["dataset.pack_sequences_in_batch=true"]))
    assert shown(request) == ("0.5", "dataset.pack_sequences_in_batch")


def test_by_a_recipe_that_only_a_newer_release_has_although_a_key_is_old() -> None:
    text = "dataset: {packed_sequence_specs: {packed_sequence_size: 4096}}\n"
    new = next(name for name in recipes.names("0.7") if recipes.find("0.6", name) is None and ":" not in name)
    assert shown(Request([parse(text)], Given(recipe=new))) == ("0.7", f"recipe {new}")


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6", "0.7"])
def test_a_saved_file_by_its_classes_and_fields(release: str) -> None:
    known = schema(release)
    lines = ["_target_: megatron.bridge.training.config.ConfigContainer"]
    for section in known.sections:
        cls = known.section_class(section)
        if cls is not None:
            fields = [name for name, field in (known.fields(cls) or {}).items() if field.init]
            lines += [f"{section}:", f"  _target_: {known.path(cls)}", *(f"  {name}: null" for name in fields)]
    assert shown(Request([parse("\n".join(lines) + "\n")])) == (release, "its classes and fields")


def test_a_recipe_that_no_release_ships_leaves_its_values_unknown() -> None:
    text = "train: {micro_batch_size: 2}\ndataset: {enable_offline_packing: true}\n"
    result = judge(Request([parse(text)], Given(bridge="0.6", recipe="my_own_model_sft_config")))
    assert result.verdict == "rejected"  # offline packing takes one row, whatever the recipe is
    assert [(f.rule.slug, f.outcome.severity) for f in result.findings if f.rule.topic == "suppress"] == [
        ("suppress/unusable-directive", "info")
    ]
    assert any("recipe" in entry.needs for entry in result.not_checked)


def test_a_misspelled_recipe_is_warned_about() -> None:
    result = judge(Request([parse("train: {micro_batch_size: 2}\n")], Given(bridge="0.6", recipe="llama3_8b_sfft_config")))
    (said,) = [finding for finding in result.findings if finding.rule.topic == "suppress"]
    assert said.outcome.severity == "warning"
    assert "did you mean llama3_8b_sft" in said.message
