"""Guides: the quick start in four languages, sections of the README, recorded sessions and plots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.site.page import Crumb, Page, fenced, plain, raw
from tools.site.sessions import ROOT, Recorder, svg

from mbpack.cli.help_texts import HELP
from mbpack.cli.main import COMMANDS

HERE = Path(__file__).parent
LANGUAGES = {"en": "English", "zh": "中文", "ja": "日本語", "ru": "Русский"}
COMMAND_INDEX = Crumb("Commands", "commands/index.html")
#: Where a line of Chinese or Japanese ends there is no space.
_WIDE_BREAK = re.compile(
    r"(?<=[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef])\n(?=[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef`\[A-Za-z])"
)
_BLOB = "https://github.com/mbpack/mbpack/blob/main/"
#: Commands that share a section of the README with another one.
_SECTION = {
    "plan": "plan, lengths, inspect",
    "lengths": "plan, lengths, inspect",
    "inspect": "plan, lengths, inspect",
    "migrate": "--fix and migrate",
}


def quick_start() -> Iterator[Page]:
    """The quick start in every language; the commands are the same and are run."""
    others = tuple((language, _quick_path(language)) for language in LANGUAGES)
    for language in LANGUAGES:
        text = (HERE / "texts" / f"quickstart.{language}.md").read_text(encoding="utf-8")
        title, summary, body = _WIDE_BREAK.sub("", text).split("\n\n", 2)
        yield Page(
            _quick_path(language), title.removeprefix("# "), summary, f"{summary}\n\n{body}", (), "quick start", language, others
        )


def _quick_path(language: str) -> str:
    return "quickstart.html" if language == "en" else f"quickstart.{language}.html"


def section(title: str) -> str:
    """A section of the README, its links made absolute; "" where there is none."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^(##+) {re.escape(title)}\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return ""
    body = re.sub(r"<details>.*?</details>|<!--.*?-->", "", found[2], flags=re.DOTALL)
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({_BLOB}\1)", body).strip()


def frames() -> list[str]:
    """The frames of the session of `mbpack init` that the README holds and a test keeps true."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    inside = text.partition("<!-- recording:")[2].partition("<!-- end of the recording -->")[0]
    return [part.split("\n```", 1)[0] for part in inside.split("```text\n")[1:]]


def commands(recorder: Recorder) -> Iterator[Page]:
    """What each command does: its help as it prints it, and what the README says."""
    rows = "\n".join(f"- [mbpack {name}](commands/{name}.html): {plain(HELP[name].short)}" for name in COMMANDS)
    text = f"{rows}\n\n`mbpack COMMAND -h` prints what stands on each page."
    yield Page(COMMAND_INDEX.path, "Commands", "The commands of mbpack, with their help.", text)
    for name in COMMANDS:
        [(_, shown)] = recorder.outputs([f"mbpack {name} --help"])
        parts = [section(_SECTION.get(name, name))]
        parts += ["## Help", fenced(shown.strip("\n"), "text")]
        yield Page(f"commands/{name}.html", f"mbpack {name}", HELP[name].short, "\n\n".join(parts), (COMMAND_INDEX,), name)


def about() -> Iterator[Page]:
    """Editors and CI, how far to trust it, what changed: sections that the tests of the README keep true."""
    editors = section("Lists, schemas, shells, agents")
    ci = section("doctor")
    yield Page(
        "editors.html",
        "Editors, CI, shells, agents",
        "mbpack in editors, pre-commit, CI, shells and coding agents.",
        f"{editors}\n\n## In CI\n\n{ci.partition('In CI:')[2].strip()}",
    )
    yield Page(
        "trust.html",
        "How far to trust it",
        "How mbpack's verdicts are compared with the released packages.",
        section("How far to trust it"),
    )
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    yield Page("changes.html", "Changes", "What changed in mbpack, release by release.", changes.partition("\n")[2].strip())


#: Runs that are shown as pictures: file, title, command, what is said below.
RECORDED = (
    ("doctor", "mbpack doctor sft.yaml", "Three errors and a note at once, with place, reason and fix."),
    ("explain", "mbpack explain pad_seq_to_mult --cp 2 --tp 4 --sp", "A key explained, its value calculated."),
    ("migrate", "mbpack migrate old.yaml --to 0.6 --diff", "A file of 0.5 carried over to 0.6."),
    ("plan", "mbpack plan lengths.txt --bridge 0.6 --gpus 16 --tp 4 --cp 2 --sp", "Pack lengths compared on real row lengths."),
    ("fit", "mbpack fit --recipe qwen3_8b_sft_config --gpus 8 --gpu h100-80gb", "Does it fit the GPU, and what would help."),
)


def sessions(recorder: Recorder) -> tuple[dict[str, bytes], Page]:
    """Recorded sessions: pictures, and the page that shows them with their text."""
    files, parts = {}, ["Each picture is a real run, made when this site was built."]
    for name, command, words in RECORDED:
        [(_, printed)] = recorder.outputs([command], colour=True)
        files[f"sessions/{name}.svg"] = svg(f"mbpack {name}", command, printed).encode()
        parts += [f"## mbpack {name}", terminal(name, command, words), _as_text(command, recorder)]
    parts.append("## mbpack init")
    parts.append(
        "A session at a terminal: a few questions, then a review whose lines can be changed. `?` explains, `b` goes back."
    )
    for number, frame in enumerate(frames()):
        files[f"sessions/init-{number}.svg"] = svg(f"mbpack init {number}", "mbpack init", frame, 128).encode()
        image = f'<img src="{{up}}sessions/init-{number}.svg" loading="lazy" alt="mbpack init, frame {number + 1}"/>'
        parts.append(raw(f'<figure class="wide"><div class="scroll" tabindex="0">{image}</div></figure>'))
    return files, Page("sessions.html", "Recorded sessions", "Real runs of mbpack as pictures.", "\n\n".join(parts))


def terminal(name: str, command: str, words: str) -> str:
    """A recorded session as a figure."""
    return raw(
        f'<figure class="wide"><div class="scroll" tabindex="0"><img src="{{up}}sessions/{name}.svg" alt="Terminal: {command}"/></div>'
        f"<figcaption>{words}</figcaption></figure>"
    )


def _as_text(command: str, recorder: Recorder) -> str:
    [(_, printed)] = recorder.outputs([command])
    return f"{raw('<details><summary>The same as text</summary>')}\n\n{fenced(f'$ {command}' + chr(10) + printed.rstrip(), 'text')}\n\n{raw('</details>')}"
