"""Token counts of rows of text, with a small real tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from mbpack.plan import jsonl
from mbpack.plan._optional import PlanError
from mbpack.plan.readers import Options, read_all
from mbpack.plan.tokenization import TokenizerSpec

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<start> {{ message.role }} "
    "{% generation %}{{ message.content }}{% endgeneration %} <end>\n{% endfor %}"
)
CHAT = [{"role": "user", "content": "one two three"}, {"role": "assistant", "content": "four"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as models have it: a word is a token, so are the markers."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(["<start>", "<end>", "<s>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {"chat_template": TEMPLATE, "bos_token": {"content": "<s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def rows(folder: Path, *objects: Any) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    return str(path)


def lengths(source: str, spec: TokenizerSpec, **options: Any) -> list[int]:
    histogram, _ = read_all([source], Options(tokenizer=spec, **options))
    return [length for length, number in zip(histogram.lengths, histogram.counts, strict=True) for _ in range(number)]


def test_a_chat_goes_through_the_template(folder: Path) -> None:
    # <s>, then for each message <start> role words <end>
    assert lengths(rows(folder, {"messages": CHAT}), TokenizerSpec(str(folder))) == [1 + (3 + 3) + (3 + 1)]


def test_other_spellings_of_a_chat(folder: Path) -> None:
    turns = [{"from": "human", "value": "one two three"}, {"from": "gpt", "value": "four"}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "one two three"}, {"type": "image"}]}, CHAT[1]]
    source = rows(folder, {"conversations": turns}, {"conversations": parts})
    assert lengths(source, TokenizerSpec(str(folder / "tokenizer.json"))) == [11, 11]


def test_a_fixed_number_of_markers_instead_of_a_template(folder: Path) -> None:
    spec = TokenizerSpec(str(folder), turn_tokens=4, row_tokens=1)
    assert lengths(rows(folder, {"messages": CHAT}), spec) == [4 + 2 * 4 + 1]


def test_a_template_file_wins(folder: Path) -> None:
    (folder / "mine.jinja").write_text("{% for message in messages %}{{ message.content }} {% endfor %}")
    assert lengths(rows(folder, {"messages": CHAT}), TokenizerSpec(str(folder), str(folder / "mine.jinja"))) == [4]


def test_prompt_and_completion_end_with_one_token(folder: Path) -> None:
    source = rows(folder, {"input": " one two ", "output": "three"}, {"input": "", "output": ""})
    assert lengths(source, TokenizerSpec(str(folder))) == [1, 4]
    assert lengths(source, TokenizerSpec(str(folder), bos=True, eos=False)) == [1, 4]


def test_a_text_field(folder: Path) -> None:
    assert lengths(rows(folder, {"text": "one two"}), TokenizerSpec(str(folder)), column="text") == [2]


def test_several_workers_count_the_same(folder: Path) -> None:
    source = rows(folder, *({"input": "w " * number, "output": "x"} for number in range(600)))
    seen: list[int] = []
    spec = TokenizerSpec(str(folder))
    parallel = lengths(source, spec, workers=2, progress=lambda done, _: seen.append(done))
    assert parallel == lengths(source, spec, workers=1) == list(range(2, 602))
    assert seen[-1] == Path(source).stat().st_size


def test_a_worker_hands_a_bad_row_back(folder: Path) -> None:
    jsonl._start_worker(("pair", ("input", "output")), TokenizerSpec(str(folder)))
    lines = [(1, b'{"input": "a", "output": "b"}'), (2, b'{"input": "a"}')]
    assert jsonl._work((0, lines[:1], 30)) == ([3], 30, None)
    assert jsonl._work((0, lines, 45)) == ([], 45, "2: no field 'output' in this row")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"messages": [{"role": "user"}]}, None),
        ({"messages": [{"content": "x"}]}, "needs a role and a content text"),
        ({"messages": ["x"]}, "rows.jsonl:2: "),
        ({"messages": "x"}, "rows.jsonl:2: expected chats"),
    ],
)
def test_messages(row: dict[str, Any], words: str | None, folder: Path) -> None:
    source = rows(folder, {"messages": CHAT}, row)
    if words is None:
        assert lengths(source, TokenizerSpec(str(folder))) == [1 + 3, 11]
        return
    with pytest.raises(PlanError) as caught:
        lengths(source, TokenizerSpec(str(folder)))
    assert words in str(caught.value)


def test_a_template_may_refuse(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(PlanError, match=r"rows\.jsonl:1: the chat template refuses this chat \(roles must alternate\)"):
        lengths(rows(folder, {"messages": CHAT}), TokenizerSpec(str(folder)))


def test_without_a_template_the_way_out_is_named(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(PlanError, match="--chat-template FILE, or --turn-tokens"):
        lengths(rows(folder, {"messages": CHAT}), TokenizerSpec(str(folder)))


def test_tokenizers_that_cannot_be_opened(folder: Path) -> None:
    (folder / "broken.json").write_text("{}")
    (folder / "empty").mkdir()
    for path, words in (
        (folder / "broken.json", "not a tokenizer.json"),
        (folder / "empty", "no tokenizer.json or tekken.json"),
        (Path("some/hub-name"), "only local files are read"),
    ):
        with pytest.raises(PlanError, match=words):
            TokenizerSpec(str(path)).load()
