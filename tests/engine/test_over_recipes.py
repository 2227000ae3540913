"""A file without a recipe is judged over all recipes that it may stand on, and for each of them as if it were named."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from typing import Any

import pytest

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import Document, parse
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.config.shell import read_launch
from mbpack.engine.candidates import candidates
from mbpack.engine.doctor import Request, examine, judge
from mbpack.engine.merge import ranged
from mbpack.engine.split import Part, answers, whole
from mbpack.facts.recipe_sets import Fork, bits, table
from mbpack.facts.recipes import find
from mbpack.facts.schema import schema
from mbpack.report.json import file_data
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES
from tests.conformance.rows import corpora

TEXTS = (
    "model: {context_parallel_size: 2, calculate_per_token_loss: false}",
    "model: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}\ntrain: {global_batch_size: 24, micro_batch_size: 2}",
    "dataset: {enable_offline_packing: true, offline_packing_specs: {packed_sequence_size: 4098, pad_seq_to_mult: 4}}",
    "model: {seq_length: 4096, recompute_granularity: full}\ndataset: {seq_length: 8192}\npeft: {dim: 8}",
    "model: {expert_model_parallel_size: 4, cuda_graph_impl: local}\ndataset: {enable_in_batch_packing: true}",
    "train: {micro_batch_size: '2', train_iters: null}\ncheckpoint: {pretrained_checkpoint: /ck}",
)
#: Recipes that are asked one by one beside the set.
ASKED = 12


def built(text: str, recipe: str | None = None, release: str = "0.6") -> Run:
    document = parse(text)
    context = resolve_context(Given(release, recipe=recipe, gpus=16, launcher="script"), Given(), (document,))
    return build_run(context, (document,))


def said(rule: Rule, run: Run) -> list[Any]:
    """What a rule says about a run: its findings in words, or why there are none."""
    try:
        return [(finding.rule.slug, finding.message, finding.outcome, finding.setting.key) for finding in rule.check(run)]
    except Unknown as unknown:
        return ["unknown", unknown.key, unknown.needs]
    except WrongKind as wrong:
        return ["wrong kind", wrong.setting.key]


@pytest.mark.parametrize("text", TEXTS)
def test_a_set_of_recipes_answers_as_each_of_them(text: str) -> None:
    part = candidates(built(text))
    chosen = random.Random(text).sample(sorted(bits(part.mask)), ASKED)
    alone = {bit: built(text, part.table.names[bit.bit_length() - 1]) for bit in chosen}
    rules = [rule for rule in ALL_RULES if rule.applies(part.run.release) and not rule.late]

    def ask(part: Part) -> list[Any]:
        return said(rule, part.run)

    compared = 0
    for rule in rules:
        parts = list(answers(part, part.mask, ask))
        assert sum(mask for mask, _ in parts) == part.mask, rule.slug  # disjoint, and all of them
        for bit in chosen:
            (answer,) = (answer for mask, answer in parts if mask & bit)
            assert answer == said(rule, alone[bit]), (rule.slug, part.table.names[bit.bit_length() - 1])
            compared += 1
    assert compared > 1000


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6"])
def test_never_rejected_where_the_true_recipe_accepts(release: str) -> None:
    path = next(
        path for path in corpora("overrides") if path.name == f"{release}.jsonl.gz" or path.name.startswith(f"{release}-ref")
    )
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in itertools.islice(stream, 120)]
    accepted = [row for row in rows if row["expect"] == "accepted" and not row.get("overrides")][:25]
    assert len(accepted) > 10
    for row in accepted:
        result = examine([parse(row["yaml"])], Given(release, gpus=row["gpus"], launcher=row["launcher"]))
        if result.context is not None and result.context.recipe is None:
            assert result.verdict != "rejected", (row["id"], [finding.message for finding in result.findings])


def test_what_holds_for_all_is_certain() -> None:
    result = examine([parse("train: {micro_batch_size: 3, global_batch_size: 16}\n")], Given("0.6", gpus=16))
    (finding,) = (finding for finding in result.findings if finding.rule.slug == "gbs/eval-divisible")
    assert result.verdict != "accepted"
    assert result.candidates is not None
    assert (finding.holds_for is None) == (result.candidates.rejected == len(result.candidates.names))


def test_what_holds_for_some_is_a_warning_that_names_them() -> None:
    result = examine([parse(TEXTS[0])], Given("0.6", gpus=16))
    (finding,) = (finding for finding in result.findings if finding.rule.slug == "cp/per-token-loss")
    held = finding.holds_for
    assert held is not None
    assert result.candidates is not None
    assert (result.verdict, finding.outcome.severity) == ("unknown", "warning")
    assert 0 < held.number < held.of == len(result.candidates.names)
    for name in held.such_as:
        assert "cp/per-token-loss" in found(TEXTS[0], name)
    for name in held.not_with:
        assert "cp/per-token-loss" not in found(TEXTS[0], name)
    assert finding.fix is None or not finding.fix.safe


def found(text: str, recipe: str) -> set[str]:
    return {finding.rule.slug for finding in examine([parse(text)], Given("0.6", recipe=recipe, gpus=16)).findings}


def test_a_fault_of_the_recipe_is_not_the_files() -> None:
    text = "logger: {log_interval: 5}\npeft: {dim: 8}\n"
    assert "peft/pretrained-checkpoint" in found(text, "llama3_8b_peft_config")
    result = examine([parse(text)], Given("0.6", gpus=16))
    assert [finding.rule.slug for finding in result.findings] == []
    assert result.verdict == "accepted"


def test_recipes_that_make_a_key_impossible_leave_the_set() -> None:
    part = candidates(built("dataset: {enable_offline_packing: true}\nmodel: {expert_model_parallel_size: 4}"))
    recipes = [part.table.recipe(bit.bit_length() - 1) for bit in bits(part.mask)]
    assert {recipe.dataset_class for recipe in recipes} == {"GPTSFTDatasetConfig"}
    assert len(recipes) > 10
    assert all(recipe.values.get("model.num_moe_experts") for recipe in recipes)


def test_a_key_of_no_recipe_leaves_all_of_them() -> None:
    part = candidates(built("dataset: {no_such_key: true}"))
    assert part.mask == table("0.6").all


def test_a_complete_file_stands_on_no_recipe() -> None:
    text = "_target_: megatron.bridge.training.config.ConfigContainer\ntrain: {micro_batch_size: 1, global_batch_size: 8}\n"
    assert examine([parse(text)], Given("0.6", gpus=8)).candidates is None


def test_what_other_recipes_accept_is_not_certain() -> None:
    text = "model: {context_parallel_size: 2, calculate_per_token_loss: true, seq_length: 5000}\nddp: {average_in_collective: false}\n"
    text += "dataset: {seq_length: 5000, dataset_root: /data}\n"
    result = examine([parse(text)], Given("0.6", gpus=16))
    assert result.verdict == "unknown"
    refusals = [finding for finding in result.findings if finding.outcome.consequence == "rejected"]
    assert refusals
    assert all(finding.holds_for is not None for finding in refusals)


def test_numbers_that_differ_are_shown_as_a_range() -> None:
    assert ranged(["GBS 1,024 by 8", "GBS 24 by 8"], "GBS 24 by 8") == "GBS 24 to 1,024 by 8"
    assert ranged(["one thing 1", "another 2"], "one thing 1") == "one thing 1"


def test_the_json_says_for_how_many_recipes_a_finding_holds() -> None:
    data = file_data(examine([parse(TEXTS[0])], Given("0.6", gpus=16)))
    (finding,) = (finding for finding in data["findings"] if finding["slug"] == "cp/per-token-loss")
    assert finding["holds_for"]["of"] == data["candidates"]["recipes"] > finding["holds_for"]["number"] > 0
    assert sum(data["candidates"][name] for name in ("rejected", "accepted", "unknown")) == data["candidates"]["recipes"]


def test_parts_are_shared_and_so_is_what_they_answer() -> None:
    held = table("0.6")
    part = whole(built("model: {context_parallel_size: 2}"), held, held.all)
    assert part.run.cp == 2
    piece = part.part(1)
    assert piece is part.part(1)
    assert piece is part.part(3).part(1)
    with pytest.raises(Fork) as fork:
        _ = part.run.tp
    masks = [mask for mask in fork.value.parts if part.part(mask).run.tp == 1]
    assert sum(fork.value.parts) == held.all
    assert len(masks) == 1  # one group for each answer, whatever the recipes differ in otherwise


def test_what_a_file_leaves_to_the_recipes_is_asked_once_for_all_files() -> None:
    held = table("0.6")
    first, second = (whole(built(f"train: {{global_batch_size: {size}}}"), held, held.all) for size in (16, 32))
    for run in (first.part(1).run, second.part(1).run):
        assert run.settings.over.source(("model", "tensor_model_parallel_size")) is not run.settings.over
        assert run.settings.over.source(("train", "global_batch_size")) is run.settings.over
    assert first.part(1).run.setting("model.num_layers") is second.part(1).run.setting("model.num_layers")
    assert (first.part(1).run.gbs, second.part(1).run.gbs) == (16, 32)


def test_a_script_that_chooses_its_recipe_is_judged_over_those() -> None:
    names = ("qwen3_8b_sft_config", "qwen3_4b_sft_config")
    text = (
        "".join(f"if [ $1 = {name} ]; then R={name}; fi\n" for name in names)
        + "torchrun run_recipe.py --recipe $R model.seq_length=64\n"
    )
    launch = read_launch(text)
    assert launch is not None
    result = judge(Request(flags=Given("0.6"), launch=launch, script=Document("train.sh", text, None)))
    assert result.candidates is not None
    found = [find("0.6", name) for name in names]
    assert set(result.candidates.names) == {recipe.name for recipe in found if recipe is not None}


@pytest.mark.parametrize(
    ("bridge", "text", "start"),
    [
        ("0.5", "checkpoint: {pretrained_checkpoint: /ckpt/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16}\n", "nemotron_"),
        ("0.6", "tokenizer: {tokenizer_model: somebody/Qwen3-8B-ours}\nmodel: {seq_length: 4096}\n", "qwen3_8b_"),
        ("0.7", "model: {freeze_language_model: true}\ndataset: {offline_packing_specs: {packed_sequence_size: 64}}\n", ""),
    ],
)
def test_what_paths_and_fields_say_of_the_model(bridge: str, text: str, start: str) -> None:
    result = judge(Request([parse(text)], Given(bridge)))
    assert result.candidates is not None
    names = result.candidates.names
    assert all(name.startswith(start) for name in names)
    recipes = [find(bridge, name) for name in names]
    fields = schema(bridge).fields
    if "freeze" in text:
        assert all(
            recipe is not None and "freeze_language_model" in (fields(recipe.model_class or "") or {}) for recipe in recipes
        )


def test_what_is_said_before_an_input_is_unknown_counts() -> None:
    text = "model: {deterministic_mode: true, cross_entropy_loss_fusion: true}\n"
    result = examine([parse(text)], Given("0.3", gpus=8, launcher="script"))
    assert "attn/deterministic" in {entry.rule.slug for entry in result.not_checked}
    (finding,) = (finding for finding in result.findings if finding.rule.slug == "attn/deterministic")
    assert finding.setting.key == "model.cross_entropy_loss_fusion"
    assert finding.holds_for is None
