"""Keys written twice: joined where no value differs, comments kept, left alone where only the user can decide."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.document import parse
from mbpack.config.duplicates import merged
from mbpack.config.edit import CannotEdit, same
from mbpack.engine.doctor import Request
from mbpack.fix.mend import Mended, mend

HEAD = "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\n"


def mended(text: str) -> Mended:
    return mend(Request([parse((HEAD + text).encode(), "c.yaml")]))


def text_of(found: Mended) -> str:
    return found.state.documents[0].text.removeprefix(HEAD)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "train:\n  micro_batch_size: 1\nmodel:\n  seq_length: 4096\ntrain:\n  global_batch_size: 8  # packs\n",
            "train:\n  micro_batch_size: 1\n  global_batch_size: 8  # packs\nmodel:\n  seq_length: 4096\n",
        ),
        (  # comments move along, another indentation is adapted
            "train:\n  micro_batch_size: 1\n\n# again\ntrain:  # later\n    # packs a step\n    global_batch_size: 8\n",
            "train:\n  micro_batch_size: 1\n  # again\n  # later\n  # packs a step\n  global_batch_size: 8\n\n",
        ),
        (  # nested sections
            "dataset:\n  offline_packing_specs:\n    packed_sequence_size: 4096\n  seq_length: 4096\n"
            "  offline_packing_specs:\n    pad_seq_to_mult: 1\n",
            "dataset:\n  offline_packing_specs:\n    packed_sequence_size: 4096\n    pad_seq_to_mult: 1\n  seq_length: 4096\n",
        ),
        ("train:\n  micro_batch_size: 1\n  micro_batch_size: 1\n", "train:\n  micro_batch_size: 1\n"),
        (  # a key that both have, with the same value
            "train:\n  micro_batch_size: 1\ntrain:\n  micro_batch_size: 1\n  global_batch_size: 8\n",
            "train:\n  micro_batch_size: 1\n  global_batch_size: 8\n",
        ),
        (  # three entries, the first in braces
            "train: {micro_batch_size: 1}\ntrain: {global_batch_size: 8}\ntrain: {train_iters: 100}\n",
            "train: {micro_batch_size: 1, train_iters: 100, global_batch_size: 8}\n",
        ),
    ],
)
def test_joined(before: str, after: str) -> None:
    found = mended(before)
    assert yaml.safe_load(text_of(found)) == yaml.safe_load(after)
    assert text_of(found) == after or before.startswith("train: {")
    assert found.after.verdict == "accepted"
    assert not mend(Request(list(found.state.documents))).changed


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("train:\n  micro_batch_size: 1\ntrain:\n  micro_batch_size: 2\n", "different values in line 3 and line 5"),
        ("train: &t\n  micro_batch_size: 1\ntrain:\n  global_batch_size: 8\n", "an anchor"),
        ("train: {micro_batch_size: 1}\ntrain:\n  global_batch_size: 8  # packs\n", "comments of the second entry"),
        ("train:\ntrain:\n  global_batch_size: 8\n", "different values"),
    ],
)
def test_left_to_the_user(before: str, reason: str) -> None:
    found = mended(before)
    assert not found.changed
    fixes = [entry.finding.fix for entry in found.manual if entry.finding.rule.code == "CFG109"]
    assert fixes
    assert all(fix is not None and reason in fix.title and not fix.edits for fix in fixes)


SECTIONS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3) | st.sampled_from(["x", "1e-5", "null"]), min_size=1)


@settings(max_examples=150, deadline=None)
@given(SECTIONS, SECTIONS, st.sampled_from([2, 4]), st.sampled_from(["\n", "\r\n"]))
def test_any_two_sections(one: dict[str, object], two: dict[str, object], indent: int, newline: str) -> None:
    def section(values: dict[str, object], step: int) -> str:
        return "train:\n" + "".join(f"{' ' * step}{key}: {value}\n" for key, value in values.items())

    text = (section(one, 2) + "model:\n  seq_length: 4096\n" + section(two, indent)).replace("\n", newline)
    document = parse(text.encode(), "c.yaml")
    if any(one[key] != two[key] for key in one.keys() & two.keys()):
        with pytest.raises(CannotEdit, match="different values"):
            merged(document, ("train",))
        return
    edited = merged(document, ("train",))
    assert edited.document.readable
    assert edited.document.text.count(newline) == edited.document.text.count("\n")
    assert edited.document.root is not None
    expected = parse(section({**one, **two}, 2).encode(), "e.yaml")
    assert expected.root is not None
    assert same(edited.document.root.plain["train"], expected.root.plain["train"])
    assert edited.document.root.plain["model"] == {"seq_length": 4096}


def test_what_was_joined_once_is_not_joined_again() -> None:
    text = "model:\n  seq_length: 4096\nmodel:\n  num_layers: 2\n"
    assert merged(parse(text), ("model",)) is merged(parse(text), ("model",))
