"""The screen recording in README.md: a real session in a terminal of 128 columns, one frame per question.

python -m tests.wizard.recording          write it anew
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.wizard.terminal import DOWN, ENTER, Terminal

FILE = Path(__file__).resolve().parents[2] / "README.md"
#: Lines around the recording.
BEGIN, END = "<!-- recording: python -m tests.wizard.recording -->", "<!-- end of the recording -->"
#: Seconds without output after which a frame counts as drawn.
SILENCE = 1.0
#: What is waited for, and what is typed then.
SCRIPT: tuple[tuple[str, str], ...] = (
    ("What are you training (b", DOWN + ENTER),
    ("Recipe or model family:", "qwen3 8b"),
    ("qwen3_8b_peft_1gpu", ENTER),
    ("Your data: a path", "/data/chats" + ENTER),
    ("What the data are (b", DOWN + ENTER),
    ("GPUs in all [", "16" + ENTER),
    ("change a line (its number) [yes]:", "9 4" + ENTER),
    ("4 = CP*TP = 1*4 (was", "11 2" + ENTER),
    ("8 = lcm(2*CP = 4, CP*TP = 8) (was", "13 5001" + ENTER),
    ("5,000 or 5,008", "f" + ENTER),
    ("+  pretrained_checkpoint", ENTER),
)


def frames(expected: Sequence[str] = ()) -> list[str]:
    """One frame per question as the terminal shows it, then what is printed at the end.

    A frame is taken when it is as expected, else when the program has been silent for a while.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder, Terminal("init", cwd=folder, columns=128, rows=110) as terminal:
        for number, (wanted, typed) in enumerate(SCRIPT):
            terminal.wait_for(wanted)
            found.append(_settled(terminal, expected[number] if number < len(expected) else None))
            terminal.send(typed)
        assert terminal.finish() == 0
        end = terminal.everything()
    return [*found, end[end.rindex("Wrote packing.yaml.") :].rstrip()]


def _settled(terminal: Terminal, expected: str | None) -> str:
    quiet, seen = time.monotonic(), -1
    while time.monotonic() - quiet < SILENCE:
        if len(terminal.raw) != seen:
            quiet, seen = time.monotonic(), len(terminal.raw)
            if _last_block(terminal.visible()) == expected:
                break
        if not terminal.pump():
            break
    return _last_block(terminal.visible())


def _last_block(screen: str) -> str:
    """The lines that belong to the question being asked: everything below the answer before."""
    lines = screen.splitlines()
    asked = [number for number, line in enumerate(lines) if line.startswith("> ")]
    start = asked[-2] + 1 if len(asked) > 1 else 0
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:]).rstrip()


def markdown(found: Sequence[str]) -> str:
    """Frames as the lines between the marks."""
    return "\n".join(f"\n```text\n{frame}\n```" for frame in found) + "\n\n"


def _part(text: str) -> tuple[str, str, str]:
    """The document before, between and after the marks, marks included on the outside."""
    before, _, rest = text.partition(BEGIN + "\n")
    inside, _, after = rest.partition(END)
    return before + BEGIN + "\n", inside, END + after


def shown() -> str:
    """What the document has between the marks."""
    return _part(FILE.read_text(encoding="utf-8"))[1]


def recorded() -> list[str]:
    """The frames of the document."""
    return [part.split("\n```", 1)[0] for part in shown().split("```text\n")[1:]]


def main() -> None:
    """Record anew."""
    before, _, after = _part(FILE.read_text(encoding="utf-8"))
    FILE.write_text(before + markdown(frames()) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
