"""Rules in words alone: their checks and keys exist, their fixes mend, and they answer in every way other rules are asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mbpack.checks.seeds import is_spoken_for
from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.run import Run
from mbpack.engine.reads import reads
from mbpack.facts.checks import EACH, REFUSE, checks
from mbpack.facts.keys import path_in
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import schema
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.documentation import page_of
from mbpack.rules.registry import rules_for
from mbpack.rules.worded import Said, Worded, worded
from tests.conftest import doctor, slugs

WORDED = [rule for rule in ALL_RULES if isinstance(rule, Worded)]
MOE = "recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script\n"
TOPK = "model: {moe_router_topk: 1, moe_router_pre_softmax: false}\n"


def names() -> Iterator[str]:
    for release in RELEASES:
        table = checks(release.name)
        for name in table.names() if table is not None else ():
            rows = table.block(name).rows if table is not None else []
            for row in (inner for one in rows for inner in (one, *(one[5] if one[0] == EACH else ()))):
                if row[0] == REFUSE:
                    yield row[5]


NAMES = sorted(set(names()))


def run_of(text: str) -> Run:
    document = parse(text)
    return build_run(resolve_context(Given(), Given(), [document]), [document])


@pytest.mark.parametrize("rule", WORDED, ids=lambda rule: rule.code)
def test_every_word_is_about_a_check_of_some_release(rule: Worded) -> None:
    used = [rule.said(name) for name in NAMES if worded(name) is rule]
    for begin, said in rule.checks.items():
        assert any(said is one for one in used), f"no release has a check called {begin}"


@pytest.mark.parametrize("rule", WORDED, ids=lambda rule: rule.code)
def test_every_key_exists(rule: Worded) -> None:
    for key in (rule.whole(name) for said in rule.checks.values() for name in said.at.split()):
        assert any(_exists(release.name, path_in(release, key)) for release in RELEASES), key


def _exists(release: str, path: str) -> bool:
    section, _, field = path.partition(".")
    held = schema(release)
    fields: dict[str, Any] = {"model": held.any_model_fields(), "dataset": held.any_dataset_fields()}
    return field in fields[section] if section in fields and field else section in held.sections


def test_a_check_has_one_entry() -> None:
    for name in NAMES:
        begins = [len(begin) for rule in WORDED if (begin := rule.begin(name)) is not None]
        assert len(begins) == len(set(begins)), name


def test_the_longest_beginning_speaks() -> None:
    short, long = Said("short", "fp8"), Said("long", "fp8")
    rule = Worded("XXX101", "x/y", "Place", "Title.", {"fp8": short, "fp8 if fp4": long})
    assert rule.said("Place:fp8=hybrid") is short
    assert rule.said("Place:fp8 if fp4") is long
    assert rule.said("Place:fp8+fp4") is None
    assert rule.said("Place:fp8_recipe") is None


@pytest.mark.parametrize("rule", WORDED, ids=lambda rule: rule.code)
def test_asked_alone_it_says_the_same(rule: Worded) -> None:
    for text in page_of(rule).bad:
        alone = [finding for finding in rule.check(run_of(text)) if finding.rule is rule]
        together = [finding for finding in doctor(text).findings if finding.rule is rule]
        assert [(one.setting.key, one.message, one.fix) for one in alone] == [
            (one.setting.key, one.message, one.fix) for one in together
        ]
        assert not any(mark in one.message + one.why for one in alone for mark in "{}")


def test_words_are_not_looked_at_where_the_recipe_is_known() -> None:
    assert not any(isinstance(rule, Worded) for rule in rules_for(run_of(f"# mbpack: bridge=0.6 {MOE}{TOPK}").settings))


@pytest.mark.parametrize("rule", WORDED, ids=lambda rule: rule.code)
def test_looking_begins_at_every_key_that_may_be_enough_on_a_recipe(rule: Worded) -> None:
    assert not [key for key in reads()[rule.slug].alone if is_spoken_for(key, complete=False)]


@pytest.mark.parametrize(
    ("context", "text", "slug"),
    [
        ("bridge=0.5 recipe=gpt_oss_20b_sft_mxfp8_config", "mixed_precision: bf16_mixed", "moe/router-padding"),
        (
            "bridge=0.3 recipe=moonlight_16b_pretrain_config",
            "optimizer: {use_distributed_optimizer: false}",
            "opt/precision-aware",
        ),
    ],
)
def test_what_a_recipe_sets_and_a_common_key_together_refuse(context: str, text: str, slug: str) -> None:
    found = doctor(f"# mbpack: {context} gpus=8 launcher=script\n{text}\n")
    assert slug in slugs(found, "error")


def test_over_recipes_it_says_with_how_many() -> None:
    (finding,) = [one for one in doctor(f"# mbpack: bridge=0.6 gpus=16\n{TOPK}").findings if one.rule.slug == "moe/router-topk"]
    assert finding.holds_for is not None
    assert 0 < finding.holds_for.number < finding.holds_for.of


def test_a_release_without_a_table_is_asked_by_the_newest() -> None:
    text = f"# mbpack: bridge=0.7 {MOE}model: {{moe_enable_deepep: true, moe_token_dispatcher_type: alltoall}}\n"
    assert slugs(doctor(text), "error") == ["moe/dispatcher"]


def test_a_value_that_is_not_known_is_said_once() -> None:
    text = (
        f"# mbpack: bridge=0.6 {MOE}model: {{moe_router_group_topk: 2, moe_router_num_groups: '${{oc.decode:${{oc.env:G}}}}'}}\n"
    )
    (entry,) = [one for one in doctor(text).not_checked if one.rule.slug == "moe/router-groups"]
    assert entry.needs == ("environment",)


def test_the_name_of_the_release_stands_in_the_message() -> None:
    text = f"# mbpack: bridge=0.6 {MOE}model: {{moe_router_padding_for_fp8: true}}\n"
    (finding,) = [one for one in doctor(text).findings if one.rule.slug == "moe/router-padding"]
    assert finding.message == "moe_router_padding_for_quantization needs FP8 or FP4"
    assert finding.setting.key == "model.moe_router_padding_for_fp8"
    assert finding.fix is not None
    assert "moe_router_padding_for_fp8: false" in finding.fix.title
