"""Real chats through a real tokenizer, offline: 7,168 conversations of chitchat-dataset, Mistral's tekken vocabulary.

    pip install 'mbpack[test-text]'
    python -m pytest tests/conformance/plan_real_text.py -m conformance
    python -m tests.conformance.plan_real_text --record tests/data/lengths/chitchat_tekken.json

Both come from the package index (MIT and Apache-2.0), no hub is asked. Not part of the default run: the file name keeps
pytest from collecting it. `--record` writes the histogram that tests/plan/test_real_text.py plans with.
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mbpack.plan.histogram import Histogram
from mbpack.plan.readers import Options, read_all
from mbpack.plan.tokenization import TokenizerSpec

pytestmark = pytest.mark.conformance
RECORD = Path(__file__).parents[1] / "data" / "lengths" / "chitchat_tekken.json"


def package_file(package: str, name: str) -> Path:
    """A file inside an installed package, which is not imported."""
    found = find_spec(package)
    assert found is not None, f"{package} is not installed: pip install 'mbpack[test-text]'"
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0], name)


def chats() -> list[dict[str, Any]]:
    """The conversations as rows: consecutive texts of one person are one message."""
    rows = []
    for conversation in json.loads(package_file("chitchat_dataset", "dataset.json").read_text()).values():
        messages = []
        for place, turn in enumerate(conversation["messages"]):
            text = "\n".join(part["text"] for part in turn)
            messages.append({"role": "assistant" if place % 2 else "user", "content": text})
        rows.append({"messages": messages})
    return rows


def histogram(folder: Path) -> Histogram:
    """Stored lengths with a chat format of four marker tokens a message and one at the beginning."""
    source = folder / "chats.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in chats()))
    tokenizer = package_file("mistral_common", "data/tekken_240911.json")
    options = Options(tokenizer=TokenizerSpec(str(tokenizer), turn_tokens=4, row_tokens=1), workers=2)
    return read_all([str(source)], options)[0]


def test_counts_equal_the_record(tmp_path: Path) -> None:
    assert histogram(tmp_path).same(Histogram.of_json(json.loads(RECORD.read_text())))


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, required=True)
    target = parser.parse_args().record
    with tempfile.TemporaryDirectory() as folder:
        histogram(Path(folder)).save(target)


if __name__ == "__main__":
    main()
