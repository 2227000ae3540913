"""The report for people: widths, colours, carets, other writing, and what each line says."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.document import parse
from mbpack.engine.doctor import examine
from mbpack.report import columns
from mbpack.report.style import Style, style_for
from mbpack.report.text import render, summary
from tests.cli.conftest import BROKEN, RIGHT
from tests.conftest import doctor, slugs

HEAD = "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\n"


def text_of(text: str, width: int = 80, colour: bool = False, path: str = "a.yaml") -> str:
    return render(examine([parse(text, path)], path=path), Style(colour, width))


def block(report: str, code: str) -> list[str]:
    """The lines of one finding."""
    part = next(part for part in report.split("\n\n") if re.match(rf"(error|warning|note) {code}\b", part))
    return part.splitlines()


def marked(report: str, code: str) -> tuple[str, str]:
    """The source text above the carets of a finding (by columns, a wide character counting once), and what follows them."""
    lines = block(report, code)
    at = next(index for index, line in enumerate(lines) if re.match(r"       \| +\^|       \| \^", line))
    source, carets = lines[at - 1][9:], lines[at][9:]
    start = carets.index("^")
    length = carets.count("^")
    shown, column = "", 0
    for sign in source:
        if start <= column < start + length:
            shown += sign
        column += columns.columns(sign)
    return shown, carets[start + length :].strip()


# ---------------------------------------------------------------------- the words


def test_the_report_says_everything() -> None:
    report = text_of(BROKEN)
    assert report.splitlines()[0] == "a.yaml  Megatron-Bridge 0.6, recipe llama3_8b_sft_config, 16 GPUs, launcher"
    assert block(report, "BAT101") == [
        "error BAT101  offline packing needs micro_batch_size 1, found 2 [rejected:",
        "      refused at start-up, first]",
        "     9 |   micro_batch_size: 2",
        "       |                     ^",
        "    14 |     packed_sequence_size: 8192",
        "  why   A pack already is a full row; a microbatch of several rows has no place",
        "        for their boundaries.",
        "  fix   micro_batch_size: 1 (global_batch_size 8 stays: 8 packs a step) [safe]",
    ]
    assert marked(report, "ALN101") == ("2", "needs a multiple of 8")
    assert block(report, "ALN101")[-1].endswith("[unsafe: --unsafe-fixes]")
    assert "          pad multiple 8 = lcm(2*CP = 4, CP*TP = 8)" in report.splitlines()
    assert re.search(r"^Not checked \(\d+\)   .*need the packed$", report, re.MULTILINE)
    assert "  uv run python -m pytest tests/unit_tests/" in report
    assert "2 errors, 0 warnings." in report
    assert "mbpack explain BAT101 says more." in " ".join(report.split())


def test_what_one_launcher_repairs_depends_on_it_where_none_is_known() -> None:
    unknown = BROKEN.replace(" launcher=script", "")
    assert "when with launcher script; not with run_recipe" in " ".join(text_of(unknown).split())
    assert "Next --launcher NAME settles" in " ".join(text_of(unknown).split())
    assert "launcher NAME" not in text_of(BROKEN)
    assert "not with run_recipe" not in text_of(unknown.replace("bridge=0.6", "bridge=0.5"))


def test_quiet_when_right() -> None:
    report = " ".join(text_of(RIGHT).split())
    assert re.fullmatch(r"a\.yaml: no problems found \(\d+ rules checked, \d+ not checkable: .*\)", report)


def test_several_reports_end_with_a_count() -> None:
    count, *more = summary([(1, 0), (0, 2), (0, 0)], Style()).splitlines()
    assert count == "3 configurations: 1 error, 2 warnings, 1 clean"
    assert "mbpack verify FILE" in " ".join(more)


def test_among_others_a_report_leaves_out_what_each_would_repeat() -> None:
    result = examine([parse(BROKEN, "a.yaml")], path="a.yaml")
    alone, beside = render(result, Style()).splitlines(), render(result, Style(), one_of_many=True).splitlines()
    left_out = [line for line in alone if line not in beside]
    assert all(line in alone for line in beside)
    assert left_out[0].startswith("Upstream tests")
    assert any(is_command(line) for line in left_out)
    assert len([line for line in left_out if is_command(line)]) == 1


# ---------------------------------------------------------------------- widths


def is_command(line: str) -> bool:
    return line.startswith("  uv run python -m pytest ")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize(
    "text",
    [
        BROKEN,
        RIGHT,
        "",
        HEAD + "model: {x: " + "漢" * 90 + ", context_parallel_size: 3, seq_length: 8191}\n",
        HEAD + "train: {global_batch_size: " + "9" * 300 + ", micro_batch_size: " + "a" * 300 + "}\n",
        HEAD + "model: {" + "k" * 150 + ": 1, context_parallel_size: '" + "words and more " * 300 + "'}\n",
        "# mbpack: bridge=0.6 recipe=" + "r" * 200 + "\nmodel: {}\n",
        "# mbpack: ignore[" + "Z" * 200 + "]\nmodel: {}\n",
        "\t" * 100 + "x: [",
        "e\u0301" * 200 + ": [",
    ],
)
def test_no_line_is_wider_than_the_terminal(text: str, width: int) -> None:
    path = "some folder/with a long name/" + "n" * 60 + ".yaml"
    for line in text_of(text, width, path=path).splitlines():
        assert is_command(line) or columns.columns(line) <= width, line


def test_one_finding_fits_a_screen() -> None:
    report = text_of(HEAD + "model: {context_parallel_size: '" + "words and more " * 3000 + "'}\n")
    for part in report.split("\n\n"):
        assert len(part.splitlines()) < 40


@given(st.text(max_size=300), st.integers(40, 120), st.text(st.sampled_from(" |why"), max_size=12))
@settings(max_examples=150, deadline=None)
def test_wrapping_keeps_the_words(text: str, width: int, prefix: str) -> None:
    lines = columns.wrap(text, width, prefix, " " * len(prefix))
    assert all(columns.columns(line) <= width for line in lines)
    assert all(columns.printable(line) == line for line in lines)
    kept = "".join("".join(lines).removeprefix(prefix.rstrip()).split())
    if "…" not in kept:
        assert kept.endswith("".join(columns.printable(text.replace("\n", " ")).split())[-20:])


@given(st.text(max_size=60), st.integers(2, 50))
@settings(max_examples=150, deadline=None)
def test_clipping_fits(text: str, room: int) -> None:
    shown = columns.clip(columns.printable(text), room)
    assert columns.columns(shown) <= room
    assert shown == columns.printable(text) or shown.endswith("…")


@given(st.text(st.sampled_from("ab漢\u0301é"), max_size=30), st.integers(-1, 40))
def test_head_and_tail_are_the_longest_that_fit(text: str, room: int) -> None:
    tails = [text[cut:] for cut in range(len(text) + 1)]
    heads = [text[: len(text) - cut] for cut in range(len(text) + 1)]
    assert columns.tail(text, room) == next((t for t in tails if columns.columns(t) <= room), "")
    assert columns.head(text, room) == next((t for t in heads if columns.columns(t) <= room), "")


# ---------------------------------------------------------------------- carets


@pytest.mark.parametrize(
    ("line", "code", "under"),
    [
        ("train: {micro_batch_size: 2}", "BAT101", "2"),
        ("train: {micro_batch_size:    '2'}", "CFG111", "'2'"),
        ("train: {'漢字': 1, micro_batch_size: 2}", "BAT101", "2"),
        ("train: {'👍🏽 e\u0301': 1, micro_batch_size: 2}", "BAT101", "2"),
        ("train: {x: 'a\tb\t', micro_batch_size: 2}", "BAT101", "2"),
        ("train: {micro_batch_size: '漢字'}", "CFG111", "'漢字'"),
        ("train: {'" + "x" * 200 + "': 1, micro_batch_size: 2, y: " + "z" * 200 + "}", "BAT101", "2"),
        ("train: {'" + "漢" * 200 + "': 1, micro_batch_size: 2, y: " + "字" * 200 + "}", "BAT101", "2"),
        ("train: {micro_batch_size: 2}\r", "BAT101", "2"),
        ("dataset: {packed_sequence_specs: {}, offline_packing_specs: {}}", "CFG101", "packed_sequence_specs"),
        ("train: {micro_batch_siez: 1}", "CFG102", "micro_batch_siez"),
    ],
)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_caret_stands_under_the_value(line: str, code: str, under: str, width: int) -> None:
    assert marked(text_of(HEAD + line + "\n", width), code)[0] == under


def test_a_value_over_several_lines_is_marked_at_its_start() -> None:
    report = text_of(HEAD + "train:\n  micro_batch_size: >\n    two\n    words\n")
    assert marked(report, "CFG111")[0] == ">"


# ---------------------------------------------------------------------- colours and control characters


def test_colour_only_adds() -> None:
    plain, painted = text_of(BROKEN), text_of(BROKEN, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
    assert "\x1b[1;31merror BAT101\x1b[0m" in painted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colour: bool) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert style_for(Terminal()).colour is colour
    assert style_for(io.StringIO()).colour is False


@pytest.mark.parametrize(("said", "width"), [("30", 40), ("40", 40), ("100", 100), ("500", 120), ("0", 80), ("x", 80)])
def test_the_width_is_that_of_the_terminal_within_reason(monkeypatch: pytest.MonkeyPatch, said: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", said)
    assert style_for(io.StringIO()).width == width


def test_a_pipe_has_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert style_for(io.StringIO()).width == 80


@pytest.mark.parametrize(
    "text",
    [
        HEAD + 'model: {"\\e[31m\\a": 1, context_parallel_size: "\\e]0;title\\a"}\n',
        HEAD + "train: {x: \u202e, micro_batch_size: '\u2066evil\u2069'}\n",
        "# mbpack: bridge=\x1b[31m gpus=\x07\nmodel: {}\n",
        "# mbpack: ignore[\x1b[2J]\nmodel: {}\n",
        "\x1b[2J\x00: [",
    ],
)
def test_nothing_in_a_file_reaches_the_terminal_as_a_command(text: str) -> None:
    report = text_of(text, path="a\x1b[31m\n.yaml")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", report)
    assert len(report.splitlines()[0].split("Megatron")[0]) > 5


def test_layers_name_their_files(tmp_path: Path) -> None:
    documents = [parse(BROKEN, "base.yaml"), parse("model: {context_parallel_size: 4}\n", "top.yaml")]
    report = render(examine(documents, path="base.yaml + top.yaml"), Style(width=120))
    assert "     1 | model: {context_parallel_size: 4}   (in top.yaml)" in report
    assert "       | in base.yaml" in report


def test_notes_of_every_run_are_told_only_when_asked_for() -> None:
    result = doctor("train: {global_batch_size: 8}", bridge="0.5", recipe="llama3_8b_sft_config", gpus=8, launcher="script")
    assert "flops/inbatch" in slugs(result)
    assert "FLP101" not in render(result, Style())
    assert "FLP101" in render(result, Style(), verbose=True)
