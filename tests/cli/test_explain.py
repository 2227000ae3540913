"""`mbpack explain`: every topic has a page, numbers are computed, unknown names get close ones."""

from __future__ import annotations

import pytest

from mbpack.engine.derived import names
from mbpack.facts.derivations import MEANINGS
from mbpack.facts.families import FAMILIES, Family
from mbpack.facts.modes import MODES
from mbpack.facts.pitfalls import PITFALLS, Pitfall
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import releases_with
from mbpack.report.columns import columns
from mbpack.report.explain import page
from mbpack.report.style import Style
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.documentation import page_of
from tests.cli.conftest import Call


def words(text: str) -> str:
    return " ".join(text.split())


def fits(out: str) -> bool:
    """No line beyond 80 columns, but commands and YAML to be copied (indented by two)."""
    return all(columns(line) <= 80 for line in out.splitlines() if not line.startswith("  "))


@pytest.mark.parametrize(
    ("key", "said", "rules"),
    [
        ("pad_seq_to_mult", "run_recipe.py, 0.6 and later: lcm(your value or 1", ["ALN101", "ALN109", "DAT116"]),
        ("model.expert_tensor_parallel_size", "start-up, up to 0.5: unset, the tensor parallel size", []),
        ("train.micro_batch_size", "nobody: the packing mode decides", ["BAT101", "BAT105", "PPL107"]),
        ("dataset.dataset_kwargs.chat", "Rules", ["DAT147"]),
    ],
)
def test_a_key_says_who_derives_it_and_which_rules_read_it(mbpack: Call, key: str, said: str, rules: list[str]) -> None:
    out = mbpack("explain", key).out
    assert said in words(out)
    assert [code for code in rules if f"  {code}  " not in out] == []
    assert fits(out)


@pytest.mark.parametrize("key", sorted(MEANINGS))
def test_every_derived_key_exists_in_the_releases_named(key: str) -> None:
    section, _, name = key.partition(".")
    assert "." in name or releases_with(section, name)
    for setter in MEANINGS[key].setters:
        assert setter.who in ("start-up", "run_recipe.py", "nobody")
        assert all(release in {r.name for r in RELEASES} for release in (setter.since, setter.until) if release)


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.code)
def test_every_rule_by_code_and_slug(rule: Rule) -> None:
    out = page(rule.code, Style())
    assert out.startswith(f"{rule.code}  {rule.slug}\n")
    doc = page_of(rule)
    for text in (doc.title, *doc.bad, *doc.good, *doc.upstream):
        assert words(text) in words(out)
    assert f"# mbpack: ignore[{rule.code}] reason" in out
    assert fits(out)
    assert page(rule.slug, Style()) == page(rule.code.lower(), Style()) == out


def test_a_rule_on_the_command_line(mbpack: Call) -> None:
    assert mbpack("explain", "ALN101") == (0, page("ALN101", Style()) + "\n", "")


def test_the_map_lists_everything(mbpack: Call) -> None:
    code, out, err = mbpack("explain")
    assert (code, err) == (0, "")
    assert fits(out)
    for rule in ALL_RULES:
        assert f"{rule.code}  " in out
    for pitfall in PITFALLS:
        assert words(pitfall.title) in words(out)
    for mode in MODES:
        assert f"{mode}:" in out


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: str(pitfall.number))
def test_every_pitfall_by_number(pitfall: Pitfall) -> None:
    out = page(str(pitfall.number), Style())
    assert words(out).startswith(f"Pitfall {pitfall.number}: {pitfall.title}")
    assert "\nRules\n  " in out
    assert page(f"pitfall {pitfall.number}", Style()) == page(f"#{pitfall.number}", Style()) == out


@pytest.mark.parametrize("name", MODES)
def test_every_mode(mbpack: Call, name: str) -> None:
    code, out, _ = mbpack("explain", name)
    assert code == 0
    assert out.startswith(f"{name}: ")
    assert fits(out)
    assert mbpack("explain", name.replace("_", "-").upper()).out == out
    assert ("uv run python -m pytest" in out) == (name != "none")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family(family: Family) -> None:
    out = page(family.name, Style())
    assert out.startswith(f"{family.name}: {family.title}\n")
    assert "offline packing" in out
    assert fits(out)


def test_a_family_says_what_works_in_which_release(mbpack: Call) -> None:
    out = words(mbpack("explain", "gemma2").out)
    assert "offline packing 0.3 to nightly refused" in out
    assert "GEM101" in out
    assert "offline packing 0.3 to nightly works" in words(mbpack("explain", "qwen3").out)


@pytest.mark.parametrize("name", list(names()))
def test_every_derived_number(mbpack: Call, name: str) -> None:
    assert mbpack("explain", name).code == 0


@pytest.mark.parametrize("topic", sorted({rule.topic for rule in ALL_RULES}))
def test_every_group_of_rules(topic: str) -> None:
    assert fits(page(topic, Style()))


@pytest.mark.parametrize(
    "key",
    ["dataset.offline_packing_specs.pad_seq_to_mult", "pad_seq_to_mult", "model.context_parallel_size", "micro_batch_size"],
)
def test_keys(mbpack: Call, key: str) -> None:
    code, out, _ = mbpack("explain", key)
    assert code == 0
    assert out.splitlines()[0].endswith(key)
    assert "\nRules\n  " in out


def test_a_key_says_its_default_and_its_pitfalls(mbpack: Call) -> None:
    out = mbpack("explain", "pad_seq_to_mult").out
    assert "Field      int|null, default 1 (PackedSequenceSpecs, 0.6)\n" in out
    assert "  10  pad_seq_to_mult must be derived from the topology\n" in out
    assert "(GPTSFTDatasetConfig, 0.6)" in mbpack("explain", "dataset.seq_length").out
    both = mbpack("explain", "model.seq_length").out + "\n" + mbpack("explain", "dataset.seq_length").out
    assert mbpack("explain", "seq_length").out == both


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("micro_batch_size", "train.micro_batch_size"),
        ("global_batch_size", "train.global_batch_size"),
        ("context_parallel_size", "model.context_parallel_size"),
        ("tp", "model.tensor_model_parallel_size"),
        ("gbs", "train.global_batch_size"),
        ("average_in_collective", "ddp.average_in_collective"),
    ],
)
def test_a_name_alone_means_the_section_that_everybody_means(mbpack: Call, name: str, key: str) -> None:
    assert mbpack("explain", name).out == mbpack("explain", key).out


def test_a_rule_names_upstream_tests(mbpack: Call) -> None:
    assert "tests/unit_tests/data/packing/test_offline.py" in mbpack("explain", "BAT101").out
    assert "uv run python -m pytest" in mbpack("explain", "nrg/mbs").out
    assert "uv run python -m pytest" not in mbpack("explain", "INT101").out


def test_renamed_keys_say_both_names(mbpack: Call) -> None:
    for key in ("dataset.packed_sequence_specs", "offline_packing_specs"):
        assert "Called dataset.offline_packing_specs from 0.6 on, dataset.packed_sequence_specs before." in words(
            mbpack("explain", key).out
        )


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["pad_seq_to_mult", "--cp", "2", "--tp", "4", "--sp"], "8 = lcm(2*CP = 4, CP*TP = 8)"),
        (["data_parallel_size", "--gpus", "16", "--tp", "4", "--cp", "2"], "2 = 16 / (TP 4 x PP 1 x CP 2)"),
        (["global_batch_size", "--gbs", "8", "--dp", "2"], "microbatches 4 = GBS 8 / (MBS 1 x DP 2)"),
        (["packed_sequence_size", "--seq-length", "8192", "--gbs", "8"], "token slots 65,536 = 8,192 x 8"),
        (["pack_capacity", "--max-seqlen-per-dp-cp-rank", "4096", "--cp", "2"], "8,192 = "),
    ],
)
def test_numbers_are_computed(mbpack: Call, argv: list[str], line: str) -> None:
    code, out, err = mbpack("explain", *argv)
    assert (code, err) == (0, "")
    assert any(shown.startswith(line) for shown in out.splitlines())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["ALN10"], "did you mean ALN1"),
        (["pad_seq_to_mul"], "did you mean pad_seq_to_mult"),
        (["ofline"], "did you mean offline"),
        (["gemma22"], "gemma2"),
        (["align/pad-seq-to-mult"], "did you mean align/pad-seq-to-mult"),
        (["0"], "pitfalls are numbered from 1 to 13"),
        (["99"], "pitfalls are numbered from 1 to 13"),
        ([""], "nothing is called"),
        (["\x1b[31m" + "x" * 500], "nothing is called"),
        (["..."], "nothing is called"),
        (["model."], "nothing is called"),
        (["pad_seq_to_mult", "--cp", "0"], "sizes must be positive, found --cp 0"),
        (["data_parallel_size", "--tp", "4"], "needs --gpus"),
        (["data_parallel_size", "--gpus", "6", "--tp", "4"], "6"),
        (["num_microbatches", "--gbs", "7", "--dp", "2"], "7"),
    ],
)
def test_what_cannot_be_explained_is_one_line(mbpack: Call, argv: list[str], said: str) -> None:
    code, out, err = mbpack("explain", *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "\x1b" not in err
    assert len(err) < 400


@pytest.mark.parametrize(("topic", "cls"), [("lora", "LoRA"), ("DoRA", "DoRA"), ("canonical-lora", "CanonicalLoRA")])
def test_adapters_have_pages(mbpack: Call, topic: str, cls: str) -> None:
    done = mbpack("explain", topic)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == cls
    assert "peft.dim: 32" in done.out
    assert "PFT101" in done.out


def test_recipes_have_pages(mbpack: Call) -> None:
    done = mbpack("explain", "llama3_8b_sft_config")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "0.3, 0.4, 0.5, 0.6 and 0.7" in text
    assert "meta-llama/Meta-Llama-3-8B" in text
    assert "--recipe llama3_8b_sft_config" in text
    assert mbpack("explain", "no_such_recipe_sft_config").code == 2
