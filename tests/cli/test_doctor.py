"""The options of `mbpack doctor`: exit codes, what is selected, who says what the context is, and where reports go."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbpack.config.run import Run
from mbpack.rules.base import Finding
from mbpack.rules.catalogue import BY_NAME
from tests.cli.conftest import BROKEN, RIGHT, WASTEFUL, Call


@pytest.fixture(autouse=True)
def files(folder: Path) -> Path:
    for name, text in (("broken.yaml", BROKEN), ("right.yaml", RIGHT), ("waste.yaml", WASTEFUL)):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that raises."""

    def check(self: Any, run: Run) -> Iterator[Finding]:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr(type(BY_NAME["align/pad-seq-to-mult-cp"]), "check", check)


# ---------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["right.yaml"], 0),
        (["right.yaml", "--strict"], 0),
        (["waste.yaml"], 0),
        (["waste.yaml", "--strict"], 1),
        (["broken.yaml"], 1),
        (["right.yaml", "waste.yaml", "--strict"], 1),
        (["right.yaml", "broken.yaml"], 1),
        (["broken.yaml", "missing.yaml"], 2),
        (["right.yaml", "missing.yaml"], 2),
        (["broken.yaml", "--select", "NRG"], 0),
    ],
)
@pytest.mark.parametrize("output_format", ["text", "json", "sarif", "github", "junit"])
def test_exit_codes(mbpack: Call, argv: list[str], code: int, output_format: str) -> None:
    assert mbpack("doctor", *argv, "--format", output_format).code == code


@pytest.mark.usefixtures("defect")
def test_a_rule_that_raises_is_a_finding_and_the_others_run(doctor: Call) -> None:
    answer = doctor("broken.yaml", "right.yaml")
    assert answer.code == 70
    found = next(f for f in answer.data["files"][0]["findings"] if f["slug"] == "internal/rule-failed")
    assert "ALN101" in found["message"]
    assert "ZeroDivisionError" in found["message"]
    assert "batch/offline-mbs-one" in answer.slugs
    assert doctor("broken.yaml", "missing.yaml").code == 70


@pytest.mark.usefixtures("defect")
def test_a_rule_that_raises_is_said_where_the_selection_hides_it(doctor: Call) -> None:
    answer = doctor("broken.yaml", "--select", "BAT101")
    assert (answer.code, answer.slugs) == (70, ["batch/offline-mbs-one"])
    assert answer.err == "mbpack doctor: broken.yaml: rule ALN101 failed: a defect of mbpack; report it\n"


def test_a_defect_beside_the_rules_leaves_the_other_files(doctor: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from mbpack.cli import session

    judge = session.judge

    def broken(request: Any) -> Any:
        if request.path == "right.yaml":
            raise TypeError("no such thing")
        return judge(request)

    monkeypatch.setattr(session, "judge", broken)
    answer = doctor("right.yaml", "broken.yaml")
    assert (answer.code, [file["path"] for file in answer.data["files"]]) == (70, ["broken.yaml"])
    assert answer.err == "mbpack doctor: right.yaml: internal error, nothing to report: TypeError: no such thing\n"


# ---------------------------------------------------------------------- selection and suppression


@pytest.mark.parametrize(
    ("argv", "slugs"),
    [
        (["--select", "BAT101"], {"batch/offline-mbs-one"}),
        (["--select", "bat101, align"], {"batch/offline-mbs-one", "align/pad-seq-to-mult-cp"}),
        (["--select", "ALN,BAT", "--ignore", "align/pad-seq-to-mult-cp"], {"batch/offline-mbs-one"}),
        (["--ignore", "BAT101,ALN101"], {"step/thd-mbs"}),
    ],
)
def test_select_and_ignore(doctor: Call, argv: list[str], slugs: set[str]) -> None:
    assert set(doctor("broken.yaml", *argv).slugs) == slugs


def test_a_hidden_refusal_leaves_the_verdict_open(doctor: Call) -> None:
    assert doctor("broken.yaml").data["files"][0]["verdict"] == "rejected"
    assert doctor("broken.yaml", "--ignore", "BAT101").data["files"][0]["verdict"] == "unknown"
    assert doctor("right.yaml").data["files"][0]["verdict"] == "accepted"


def test_ignore_comments(doctor: Call, folder: Path) -> None:
    comment = "# mbpack: ignore[BAT101, align/pad-seq-to-mult-cp] on purpose\n# mbpack: ignore[NRG101]\n"
    (folder / "a.yaml").write_text(comment + BROKEN)
    answer = doctor("a.yaml")
    assert set(answer.slugs) == {"step/thd-mbs", "suppress/unused", "suppress/no-reason"}
    unused = next(f for f in answer.data["files"][0]["findings"] if f["slug"] == "suppress/unused")
    assert (unused["line"], unused["severity"]) == (2, "warning")
    assert (answer.code, doctor("a.yaml", "--strict").code) == (0, 1)


def test_ignore_behind_a_value_holds_for_its_line(doctor: Call, folder: Path) -> None:
    here = BROKEN.replace("micro_batch_size: 2", "micro_batch_size: 2  # mbpack: ignore[BAT101] the launcher sets it")
    (folder / "a.yaml").write_text(here)
    assert set(doctor("a.yaml").slugs) == {"align/pad-seq-to-mult-cp", "step/thd-mbs"}
    elsewhere = BROKEN.replace("global_batch_size: 8", "global_batch_size: 8  # mbpack: ignore[BAT101] no")
    (folder / "a.yaml").write_text(elsewhere)
    assert set(doctor("a.yaml").slugs) >= {"batch/offline-mbs-one", "suppress/unused"}


@pytest.mark.parametrize(
    "line",
    [
        'name: "a  # mbpack: ignore[BAT101] text"\n',  # inside a string it is text
        "name: |\n  a  # mbpack: ignore[BAT101] text\n",
    ],
)
def test_text_is_no_directive(doctor: Call, folder: Path, line: str) -> None:
    (folder / "a.yaml").write_text(BROKEN + line)
    assert "batch/offline-mbs-one" in doctor("a.yaml").slugs
    assert "suppress/unused" not in doctor("a.yaml").slugs


def test_another_directive_behind_a_value_is_not_overlooked(doctor: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN.replace("micro_batch_size: 2", "micro_batch_size: 2  # mbpack: gpus=8"))
    answer = doctor("a.yaml")
    assert answer.data["files"][0]["context"]["gpus"] == 16
    assert any("a line of their own" in f["message"] for f in answer.data["files"][0]["findings"])


def test_a_project_file_of_endless_tables_is_one_line(mbpack: Call, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.{'mbpack.' * 5000}x]\na = 1\n")
    answer = mbpack("doctor", "right.yaml")
    assert answer.code == 2
    assert "no project file" in answer.err


def test_baseline(doctor: Call, mbpack: Call, folder: Path) -> None:
    assert mbpack("doctor", "broken.yaml", "--write-baseline", "base.json", "--format", "json").code == 0
    assert set(json.loads((folder / "base.json").read_text())) == {"version", "findings"}
    answer = doctor("broken.yaml", "--baseline", "base.json")
    assert (answer.code, answer.slugs, answer.data["files"][0]["verdict"]) == (0, [], "rejected")
    assert "3 findings suppressed" in " ".join(mbpack("doctor", "broken.yaml", "--baseline", "base.json").out.split())
    (folder / "broken.yaml").write_text("# moved\n\n" + BROKEN.replace("global_batch_size: 8", "global_batch_size: 7"))
    assert set(doctor("./broken.yaml", "--baseline", "base.json").slugs) == {"gbs/divisible", "gbs/eval-divisible"}
    (folder / "base.json").write_text('{"version": 99, "findings": []}')
    assert "--write-baseline" in mbpack("doctor", "broken.yaml", "--baseline", "base.json").err


# ---------------------------------------------------------------------- context


def context(answer: Any) -> dict[str, Any]:
    return answer.data["files"][0]["context"]


def test_flag_beats_directive_beats_project_beats_file(doctor: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text("# mbpack: gpus=16 launcher=script\nmodel: {seq_length: 4096}\n")
    (folder / "pyproject.toml").write_text(
        '[tool.mbpack]\nbridge = 0.5\ngpus = 8\nlauncher = "run_recipe"\nrecipe = "llama3_8b_sft_config"\n'
    )
    found = context(doctor("a.yaml", "--gpus", "32"))
    assert found == {
        "bridge": "0.5",
        "recipe": "llama3_8b_sft_config",
        "gpus": 32,
        "gpu": None,
        "launcher": "script",
        "sources": {"bridge": "pyproject", "recipe": "pyproject", "gpus": "flag", "launcher": "directive"},
    }


def test_the_release_shown_by_the_file_and_assumed(doctor: Call, mbpack: Call, folder: Path) -> None:
    (folder / "old.yaml").write_text("dataset: {packed_sequence_specs: {packed_sequence_size: 4096}}\n")
    (folder / "none.yaml").write_text("model: {seq_length: 4096}\n")
    assert context(doctor("old.yaml"))["sources"] == {"bridge": "file"}
    assert context(doctor("none.yaml"))["sources"] == {"bridge": "default"}
    assert context(doctor("none.yaml"))["gpus"] is None
    assert "assumed: nothing names a release" in mbpack("doctor", "none.yaml").out
    (folder / "none.yaml").write_text("model: {seq_length: x}\n")
    assert "(assumed: nothing names a release)" in " ".join(mbpack("doctor", "none.yaml").out.split())
    assert "0.5 (from dataset.packed_sequence_specs)" in " ".join(mbpack("doctor", "old.yaml", "model.seq_length=x").out.split())


def test_patch_releases_and_nightly(doctor: Call) -> None:
    for given, shown in (("0.6.2", "0.6.2"), ("0.5.1", "0.5.1"), ("nightly", "nightly"), ("0.7", "0.7")):
        answer = doctor("right.yaml", "--bridge", given, "--ignore", "CFG")
        assert context(answer)["bridge"] == shown


def test_the_project_selects_rules(doctor: Call, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.mbpack]\nselect = ["BAT", "ALN"]\nignore = ["BAT101"]\n')
    assert doctor("broken.yaml").slugs == ["align/pad-seq-to-mult-cp"]
    assert doctor("broken.yaml", "--ignore", "ALN").slugs == ["batch/offline-mbs-one"]
    (folder / "sub").mkdir()
    assert doctor("broken.yaml", "--select", "STP").slugs == ["step/thd-mbs"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.mbpack\n", "not valid TOML"),
        ("[tool.mbpack]\ngpu = 8\n", "gpu=8 is not known; use a100-40gb"),
        ("[tool.mbpack]\ngpus = 'x'\n", "must be a positive whole number"),
        ("[tool.mbpack]\ngpus = true\n", "must be a positive whole number"),
        ("[tool.mbpack]\nrecipe = ['a']\n", "must be a single value"),
        ("[tool.mbpack]\nbridge = '9'\n", "'9' is not a Megatron-Bridge release"),
        ("[tool.mbpack]\nselect = 'ALN'\n", "must be a list of rule names"),
        ("[tool.mbpack]\nselect = ['NOPE']\n", "no rule is called NOPE"),
        ("[tool]\nmbpack = 3\n", "must be a table"),
        ("tool = 'mbpack'\n", None),
        ("[tool.other]\nx = 1\n", None),
    ],
)
def test_a_project_table_that_cannot_be_used(mbpack: Call, folder: Path, text: str, words: str | None) -> None:
    (folder / "pyproject.toml").write_text(text)
    code, out, err = mbpack("doctor", "right.yaml")
    if words is None:
        assert code == 0
    else:
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err
        assert "pyproject.toml" in err or "NOPE" in err


def test_an_unusable_directive_is_a_finding_and_the_rest_counts(doctor: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text("# mbpack: bridge=0.6 gpus=² launcher=script nonsense\n" + RIGHT.partition("\n")[2])
    answer = doctor("a.yaml", "--recipe", "llama3_8b_sft_config")
    assert answer.slugs.count("suppress/unusable-directive") == 2
    assert context(answer)["launcher"] == "script"
    assert context(answer)["gpus"] is None


# ---------------------------------------------------------------------- where reports go


def test_output_is_the_report_and_replaces_a_file_at_once(mbpack: Call, folder: Path) -> None:
    expected = mbpack("doctor", "broken.yaml", "--format", "json").out
    (folder / "out.json").write_text("old")
    (folder / "out.json").chmod(0o640)
    assert mbpack("doctor", "broken.yaml", "--format", "json", "--output", "out.json") == (1, "", "")
    assert (folder / "out.json").read_text() == expected
    assert stat.S_IMODE((folder / "out.json").stat().st_mode) == 0o640
    assert mbpack("doctor", "broken.yaml", "--format", "json", "--output", "-").out == expected
    assert not (folder / "-").exists()
    assert "\x1b" not in mbpack("doctor", "broken.yaml", "--output", "out.txt").out + (folder / "out.txt").read_text()


def test_a_report_that_cannot_be_written_leaves_the_old_one(mbpack: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "out.txt").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mbpack.config.writing.os.replace", full)
    code, out, err = mbpack("doctor", "broken.yaml", "--output", "out.txt")
    assert (code, out, err) == (2, "", "mbpack doctor: out.txt: cannot be written: No space left on device\n")
    assert (folder / "out.txt").read_text() == "old"
    assert sorted(p.name for p in folder.iterdir() if p.suffix == ".txt" or "out" in p.name) == ["out.txt"]


def test_statistics(mbpack: Call, folder: Path) -> None:
    code, out, _ = mbpack("doctor", "broken.yaml", "broken.yaml", "waste.yaml", "--statistics")
    lines = out.splitlines()
    assert code == 1
    assert "2  BAT101 batch/offline-mbs-one error" in lines
    assert [int(line.split()[0]) for line in lines] == sorted((int(line.split()[0]) for line in lines), reverse=True)
    assert mbpack("doctor", "right.yaml", "--statistics") == (0, "no findings\n", "")


def test_show_resolved(mbpack: Call) -> None:
    code, out, _ = mbpack("doctor", "broken.yaml", "train.global_batch_size=32", "--show-resolved")
    assert code == 1
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "context_parallel_size: 2 # file, line 6" in lines
    assert any(line.startswith("global_batch_size: 32 #") for line in lines)
    assert any(line.endswith("# recipe") for line in lines)
    assert any(line.endswith("# class default") for line in lines)


def test_lengths_let_more_rules_be_judged(doctor: Call, folder: Path) -> None:
    (folder / "lengths.txt").write_text("100\n" * 20)
    before = doctor("right.yaml")
    after = doctor("right.yaml", "--lengths", "lengths.txt")
    assert "gbs/not-enough-rows" in after.slugs
    assert "gbs/not-enough-rows" not in before.slugs
