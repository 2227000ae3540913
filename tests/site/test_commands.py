"""Every command line that the site shows is run: by the build, or here, in a folder that holds what it names."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from tools.site.sessions import ROOT

from mbpack.cli.help_texts import HELP
from mbpack.cli.main import run
from mbpack.facts import learned, schema
from tests.inspect import packs
from tests.learn.test_lists import CONFIG, CORE, PROVIDER
from tests.site.conftest import Built
from tests.verify.tree import checkout, package

#: Shown, but not run here: commands that ask at a terminal or serve an editor have tests of their own.
ELSEWHERE = {"mbpack init": "tests/wizard/test_terminal.py", "mbpack lsp": "tests/lsp/test_server.py"}
_CHAT = [
    {"messages": [{"role": "user", "content": "one " * (20 + 7 * n)}, {"role": "assistant", "content": "two " * n}]}
    for n in range(300)
]


#: Enough of a Megatron-Bridge to be learned.
SOURCES = {
    "src/megatron/core/transformer/transformer_config.py": CORE,
    "src/megatron/bridge/models/gpt_provider.py": PROVIDER,
    "src/megatron/bridge/models/model_provider.py": "class ModelProviderMixin:\n    pass\n",
    "src/megatron/bridge/training/config.py": CONFIG,
}


def shown(built: Built) -> list[str]:
    """The command lines of mbpack on the pages, in their order, each once; comments and what a shell does with output left out."""
    found: dict[str, None] = {}
    for page in built.site.pages:
        for pre in built.trees[page.path].iter("{http://www.w3.org/1999/xhtml}pre"):
            for line in "".join(pre.itertext()).splitlines():
                if match := re.match(r"^\$ (mbpack .*)$", line):
                    found[match[1]] = None
    found |= dict.fromkeys(example for held in HELP.values() for example in held.examples if example.startswith("mbpack"))
    return [line for line in found if line not in built.site.recorder.ran]


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with every file that the examples name."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("MBPACK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / ".git").mkdir()
    packing = (ROOT / "recipes" / "text-sft-8k.yaml").read_text(encoding="utf-8")
    packing = re.sub(r"( +)packed_sequence_size", r"\1packed_train_data_path: packs/training_4096.idx.parquet\n\g<0>", packing)
    old = (ROOT / "recipes" / "same-job-0.5.yaml").read_text(encoding="utf-8")
    for name, text in (("packing.yaml", packing), ("configs/a.yaml", packing), ("configs/old.yaml", old)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "data").mkdir()
    rows = "".join(json.dumps(row) + "\n" for row in _CHAT)
    for name in ("training.jsonl", "data/training.jsonl", "shard-1.jsonl", "shard-2.jsonl"):
        (tmp_path / name).write_text(rows)
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text("{% for message in messages %}{{ message.content }} {% endfor %}")
    (tmp_path / "config.json").write_text(json.dumps(_HF_CONFIG))
    for folder in ("data/packed", "packs"):
        (tmp_path / folder).mkdir()
        packs.write(tmp_path / folder / "training_4096.idx.parquet", [packs.row((8, 4), (16, 8))] * 4)
    root = checkout(tmp_path / "Megatron-Bridge", "0.6")
    for name, text in SOURCES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text))
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" "$@"\n')  # uv run python ...
    uv.chmod(0o755)
    yield tmp_path
    learned.forget_read()
    schema.schema.cache_clear()


_HF_CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip


def test_every_command_that_is_shown_runs(built: Built, prepared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(built)
    assert len(lines) > 30
    wrong = []
    for line in lines:
        if line in ELSEWHERE:
            assert (ROOT / ELSEWHERE[line]).is_file()
            continue
        words = shlex.split(line.partition(" > ")[0])
        _make_way(words, prepared)
        code = run(words[1:])
        err = capsys.readouterr().err
        if code not in (0, 1) or "internal error" in err:
            wrong.append(f"{line}\n   -> {code} {err.strip()[:300]}")
    assert not wrong, "\n".join(wrong)


def _make_way(words: list[str], folder: Path) -> None:
    """What a command needs besides files: that what it writes is not there yet, that what it forgets was learned."""
    for flag in ("--output", "--write"):
        if flag in words:
            (folder / words[words.index(flag) + 1]).unlink(missing_ok=True)
    if words[1] == "init":
        (folder / "packing.yaml").unlink(missing_ok=True)
    if "--forget" in words:
        package(folder / "Megatron-Bridge", *map(int, words[-1].split(".")))
        assert run(["learn", "--from", "Megatron-Bridge"]) == 0


def test_commands_are_found_on_pages(built: Built) -> None:
    ran = built.site.recorder.ran
    assert "mbpack doctor sft.yaml" in ran
    assert all(code in (0, 1) for code in ran.values()), {line: code for line, code in ran.items() if code > 1}
    assert "mbpack doctor packing.yaml" in {*shown(built), *ran}
