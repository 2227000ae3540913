"""`mbpack plan` and `mbpack lengths` from the outside."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from mbpack.cli import lengths as lengths_command
from mbpack.cli import plan as plan_command

DATA = Path(__file__).parents[1] / "data" / "lengths"
BIMODAL = str(DATA / "bimodal_2000_11.txt")


def run(*arguments: str) -> int:
    """Run a command as the console does; its exit code."""
    app = typer.Typer(add_completion=False)
    plan_command.register(app)
    lengths_command.register(app)
    code: Any = app(args=list(arguments), standalone_mode=False)
    return int(code or 0)


def test_json_goes_to_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--pack 2048,4096 --token-slots 65536 --dp 2 --tp 4 --cp 2 --sp --schema chat --seed 7 --json -".split()
    assert run("plan", BIMODAL, *flags) == 0
    data = json.loads(capsys.readouterr().out)
    assert [one["pack_size"] for one in data["candidates"]] == [2048, 4096]
    assert {one["seed"] for one in data["candidates"]} == {7}
    assert data["setup"]["assumed"] == ["release 0.6 (--bridge)"]
    assert data["data"]["sources"] == [
        {"path": BIMODAL, "kind": "text, one length a line", "rows": 2000, "tokens": data["data"]["tokens"]}
    ]


def test_text_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, answers, picture = tmp_path / "plan.json", tmp_path / "answers.yaml", tmp_path / "plan.svg"
    files = ["--json", str(report), "--write", str(answers), "--plot", str(picture)]
    assert run("plan", BIMODAL, "--dp", "2", "--no-chart", *files) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2,000 rows, ")
    assert f"mbpack init --answers {answers}" in shown
    assert json.loads(report.read_text())["recommendation"]["pack_size"] == 8192
    assert yaml.safe_load(answers.read_text())["seq_length"] == 8192
    assert picture.read_bytes().startswith(b"<?xml")


def test_a_picture_for_every_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "plan.svg"
    wanted = ["--pack", "2048,4096", "--mode", "energon,in_batch", "--buffer", "8,16", "--plot", str(picture)]
    assert run("plan", BIMODAL, "--dp", "2", "--no-chart", *wanted) == 0
    written = [str(picture), *(str(tmp_path / f"plan-{mode}.svg") for mode in ("in_batch", "energon"))]
    assert capsys.readouterr().out.splitlines()[-1] == f"written: {', '.join(written)}"
    assert all(Path(one).read_bytes().startswith(b"<?xml") for one in written)


def test_shards_add_up_and_the_choice_feeds_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain of the README: histograms of shards, a plan over both, its choice as a configuration."""
    from mbpack.cli.main import run as mbpack

    lines = Path(BIMODAL).read_text().splitlines(keepends=True)
    monkeypatch.chdir(tmp_path)
    for number, part in enumerate((lines[:700], lines[700:])):
        Path(f"{number}.txt").write_text("".join(part))
        assert mbpack(["lengths", f"{number}.txt", "--output", f"{number}.json"]) == 0
    topology = "--gpus 16 --tp 4 --cp 2 --sp --schema chat".split()
    assert mbpack(["plan", "0.json", "1.json", *topology, "--json", "both.json", "--write", "chosen.answers"]) == 0
    assert mbpack(["plan", BIMODAL, *topology, "--json", "whole.json"]) == 0
    both, whole = (json.loads(Path(name).read_text()) for name in ("both.json", "whole.json"))
    assert both["candidates"] == whole["candidates"]
    chosen = "init --answers chosen.answers --recipe qwen3_8b_sft_config --data chat --yes".split()
    assert mbpack(chosen) == 0
    assert yaml.safe_load(Path("packing.yaml").read_text())["dataset"]["seq_length"] == both["recommendation"]["pack_size"]
    assert mbpack(["doctor", "packing.yaml", "--strict"]) == 0


def test_what_nobody_said_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", BIMODAL, "--pack", "8192", "--no-chart") == 0
    shown = " ".join(capsys.readouterr().out.split())
    for flag in ("--bridge", "--dp or --gpus", "--token-slots or --gbs", "--schema"):
        assert flag in shown


def test_the_schema_follows_from_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "completion": "b"}\n')
    assert run("plan", str(rows), "--tokenizer", str(tmp_path), "--pack", "64", "--json", "-") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["setup"]["schema"] == "prompt-completion"
    assert data["data"]["max"] == 3


def test_a_saved_histogram_keeps_the_schema_and_the_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    rows, saved, again = tmp_path / "rows.jsonl", tmp_path / "lengths.json", tmp_path / "again.json"
    for row, schema in (
        ({"prompt": "a", "completion": "b"}, "prompt-completion"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "chat"),
    ):
        rows.write_text(json.dumps(row) + "\n")
        turns = ["--turn-tokens", "4"] if schema == "chat" else []
        assert run("lengths", str(rows), "--tokenizer", str(tmp_path), *turns, "--output", str(saved), "--force") == 0
        data = json.loads(saved.read_text())
        assert (data["schema"], data["tokenizer"]) == (schema, str(tmp_path))
        assert run("lengths", str(saved), "--output", str(again), "--force") == 0  # adding up keeps it
        assert again.read_text() == saved.read_text()
        capsys.readouterr()
        assert run("plan", str(saved), "--pack", "64", "--json", "-") == 0
        planned = json.loads(capsys.readouterr().out)
        assert planned["setup"]["schema"] == schema
        assert run("plan", str(saved), "--pack", "64") == 0
        assert "chat rows (--schema)" not in capsys.readouterr().out
    saved.write_text(
        '{"format": "mbpack-lengths", "version": 1, "counted": "stored", "rows": 1, "tokens": 5, "lengths": [5], "counts": [1]}'
    )
    assert run("plan", str(saved), "--pack", "64") == 0  # one that says nothing
    assert "chat rows (--schema)" in " ".join(capsys.readouterr().out.split())


FITTING = "--bridge 0.6 --gpus 8 --tp 2 --sp --schema chat --gbs 32 --recipe llama31_8b_sft_config".split()


def test_pack_lengths_that_do_not_fit_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", BIMODAL, *FITTING, "--no-chart", "--pack", "2048,8192,65536") == 0
    shown = capsys.readouterr().out
    assert "on h100-80gb" in shown
    assert "! does not fit" in shown
    assert "the longest row that fits for certain on 8 x h100-80gb" in shown


def test_a_length_that_does_not_fit_is_not_recommended(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", BIMODAL, *FITTING, "--pack", "4096,131072", "--json", "-") == 0
    data = json.loads(capsys.readouterr().out)
    verdicts = {one["pack_size"]: one["verdict"] for one in data["memory"]["packs"]}
    assert verdicts == {4096: "fits", 131072: "does not fit"}
    assert data["recommendation"]["pack_size"] == 4096
    assert 4096 < data["memory"]["longest_row_tokens"] < 131072
    assert run("plan", BIMODAL, *FITTING, "--gpu", "gb200", "--pack", "4096", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["memory"]["longest_row_tokens"] > data["memory"]["longest_row_tokens"]


def test_every_mode(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--pack 4096 --gpus 8 --cp 2 --mode all --mbs 2 --buffer 8,32 --json -".split()
    assert run("plan", BIMODAL, *flags) == 0
    data = json.loads(capsys.readouterr().out)
    assert [one["mode"] for one in data["simulations"]] == ["in_batch", "energon", "global_batch", "dynamic_cp"]
    assert [fill["buffer"] for fill in data["simulations"][1]["fills"]] == [8, 32]
    assert data["simulations"][0]["gbs"] % (2 * data["setup"]["dp"]) == 0


def test_histograms_add_up_to_the_same_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = Path(BIMODAL).read_text().split()
    parts = []
    for place in range(2):
        shard = tmp_path / f"{place}.txt"
        shard.write_text("\n".join(numbers[place::2]))
        assert run("lengths", str(shard), "--output", str(tmp_path / f"{place}.json")) == 0
        parts.append(str(tmp_path / f"{place}.json"))
    assert run("lengths", *parts, "--output", str(tmp_path / "all.json")) == 0
    capsys.readouterr()
    assert run("plan", str(tmp_path / "all.json"), "--json", "-") == 0
    merged = json.loads(capsys.readouterr().out)
    assert run("plan", BIMODAL, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["candidates"] == merged["candidates"]


def test_lengths_to_standard_output_and_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Input:
        buffer = io.BufferedReader(io.BytesIO(b"5\n6\n"))

    monkeypatch.setattr("sys.stdin", Input())
    assert run("lengths", "-", "--output", "-", "--counts", "runtime") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["counted"], data["lengths"], data["counts"]) == ("runtime", [5, 6], [1, 1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "missing.npy"], "mbpack plan: missing.npy: no such file"),
        (["plan", BIMODAL, "--pack", "2k"], "mbpack plan: --pack 2k: whole numbers"),
        (["plan", BIMODAL, "--pack", "0"], "mbpack plan: --pack 0: numbers from 1"),
        (["plan", BIMODAL, "--bridge", "9.9"], "mbpack plan: Megatron-Bridge 9.9 is not known"),
        (["plan", BIMODAL, "--schema", "text"], "mbpack plan: --schema text: chat or prompt-completion"),
        (["plan", BIMODAL, "--counts", "all"], "mbpack plan: --counts all: stored or runtime"),
        (["plan", BIMODAL, "--gpus", "6", "--tp", "4"], "mbpack plan: 6 GPUs cannot be divided by TP 4"),
        (["plan", BIMODAL, "--gpus", "8", "--dp", "2"], "mbpack plan: give --dp or --gpus, not both"),
        (["plan", BIMODAL, "--gbs", "8", "--token-slots", "8"], "mbpack plan: give --token-slots or --gbs, not both"),
        (["plan", BIMODAL, "--tp", "0"], "mbpack plan: TP must be at least 1"),
        (["plan", BIMODAL, "--mode", "both"], "mbpack plan: --mode both: one of offline"),
        (["plan", BIMODAL, "--gpu", "h200"], "mbpack plan: --gpu needs --recipe"),
        (["plan", BIMODAL, "--recipe", "nosuch_config"], "mbpack plan: Megatron-Bridge 0.6 has no recipe nosuch_config"),
        (["plan", BIMODAL, "--recipe", "llama31_8b_sft_config", "--gpu", "tpu"], "mbpack plan: --gpu tpu: one of a100-40gb"),
        (["plan", BIMODAL, "--recipe", "wan_1_3b_sft_config"], "mbpack plan: WanModelProvider: not modelled"),
        (["plan", BIMODAL, "--patch", "15"], "mbpack plan: --patch is 14 or 16"),
        (["plan", BIMODAL, "--turn-tokens", "4"], "mbpack plan: --chat-template and --turn-tokens need --tokenizer"),
        (["plan", BIMODAL, "--json", "."], "mbpack plan: .: is a directory"),
        (
            ["plan", BIMODAL, "--plot", "missing/a.svg"],
            "mbpack plan: missing/a.svg: cannot be written (there is no folder missing)",
        ),
        (["plan", BIMODAL, "--plot", "a.gif"], "mbpack plan: a.gif: a plot is written as .png, .svg or .pdf"),
        (["lengths", BIMODAL, "--output", "."], "mbpack lengths: .: is a directory"),
        (["plan", BIMODAL, "--write", BIMODAL], f"mbpack plan: {BIMODAL}: exists; --force replaces it"),
        (["plan", BIMODAL, "--no-chart", "--plot", "a.bmp"], "mbpack plan: a.bmp: a plot is written as"),
        (["plan", BIMODAL, "--json", "missing/a.json"], "mbpack plan: missing/a.json: cannot be written"),
        (["lengths", BIMODAL, "--output", BIMODAL], f"mbpack lengths: {BIMODAL}: exists; --force replaces it"),
        (["lengths", "missing"], "mbpack lengths: missing: no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(words)
    assert error.count("\n") == 1


def test_without_numpy_the_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    assert run("plan", BIMODAL) == 2
    assert "pip install 'mbpack[plan]'" in capsys.readouterr().err
