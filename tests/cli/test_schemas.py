"""Every report for machines is as its published schema says, and says nothing that the schema does not name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mbpack.cli.main import COMMANDS
from mbpack.cli.schema import KINDS
from mbpack.report.command_schemas import SCHEMAS
from tests.cli.conftest import BROKEN, RIGHT, WASTEFUL, Call
from tests.inspect.packs import entry, metadata, row, write

OLD = "# mbpack: bridge=0.5\ndataset:\n  packed_sequence_specs: {packed_sequence_size: 4096}\nmodel: {seq_length: 4096}\n"
INIT = ("--recipe", "llama3_8b_sft_config", "--gpus", "8", "--bridge", "0.6")
#: Schema -> calls whose output it describes, in a folder with the files of :func:`files`.
CALLS: dict[str, list[tuple[str, ...]]] = {
    "report": [
        ("doctor", "broken.yaml", "right.yaml", "waste.yaml", "gone.yaml", "--format", "json"),
        ("doctor", "bare.yaml", "--bridge", "0.6", "--show-candidates", "--format", "json"),
        ("doctor", "broken.yaml", "bare.yaml", "--merge", "--format", "json"),
        ("doctor", "broken.yaml", "--fix", "--unsafe-fixes", "--format", "json"),
        ("doctor", "broken.yaml", "--diff", "--format", "json"),
        ("doctor", "--recipe", "llama3_8b_sft_config", "train.micro_batch_size=0", "--format", "json"),
    ],
    "explain": [
        ("explain", "--format", "json"),
        ("explain", "ALN101", "--format", "json"),
        ("explain", "pad_seq_to_mult", "--cp", "2", "--format", "json"),
        ("explain", "qwen3", "--format", "json"),
        ("explain", "releases", "--format", "json"),
        ("explain", "3", "--format", "json"),
    ],
    "init": [
        ("init", *INIT, "--yes", "--format", "json"),
        ("init", *INIT, "--yes", "--output", "-", "--format", "json"),
        ("init", *INIT, "--yes", "--as", "overrides", "--format", "json"),
        ("init", *INIT, "--yes", "--as", "sbatch", "--format", "json"),
        ("init", *INIT, "--cp", "2", "--yes", "--dry-run", "--format", "json"),
    ],
    "migrate": [
        ("migrate", "old.yaml", "right.yaml", "--to", "0.6", "--diff", "--format", "json"),
        ("migrate", "old.yaml", "--to", "0.6", "--format", "json"),
        ("migrate", "dataset.packed_sequence_specs.packed_sequence_size=1", "--from", "0.5", "--to", "0.6", "--format", "json"),
    ],
    "list": [("list", kind, "--format", "json") for kind in ("recipes", "families", "rules", "keys", "releases")],
    "fit": [
        ("fit", "right.yaml", "--format", "json", "--max-length"),
        ("fit", "right.yaml", "--json", "--no-search"),
        ("fit", "qwen3_8b_peft_config", "--format", "json"),
    ],
    "plan": [
        ("plan", "rows.txt", "--format", "json"),
        ("plan", "rows.txt", "--json", "-", "--mode", "all", "--bridge", "0.5", "--dp", "2", "--pp", "2"),
        ("plan", "rows.txt", "--format", "json", "--recipe", "llama3_8b_sft_config", "--gpu", "h100-80gb", "--gpus", "8"),
    ],
    "lengths": [("lengths", "rows.txt", "--format", "json"), ("lengths", "rows.txt", "--output", "-")],
    "inspect": [
        ("inspect", "packs", "--format", "json"),
        ("inspect", "packs", "--gbs", "2", "--cp", "2", "--format", "json"),
        ("inspect", "packs", "--config", "right.yaml", "--format", "json"),
    ],
    "verify": [("verify", "right.yaml", "--format", "json"), ("verify", "--feature", "offline", "--format", "json")],
}


@pytest.fixture
def files(folder: Path) -> Path:
    texts = {"broken": BROKEN, "right": RIGHT, "waste": WASTEFUL, "bare": "model: {context_parallel_size: 2}\n", "old": OLD}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "rows.txt").write_text("\n".join(str(1 + row * 37 % 9000) for row in range(400)))
    write(folder / "packs" / "training_16.idx.parquet", [row((8, 3), (8, 2))] * 6)
    metadata(folder / "packs" / "16_metadata.jsonl", entry(16, 2, 8))
    return folder


def unlisted(schema: dict[str, Any], data: Any, path: str = "") -> Iterator[str]:
    """What is printed and not described."""
    if "anyOf" in schema and data is not None:
        schema = schema["anyOf"][0]
    if isinstance(data, dict) and "properties" in schema:
        for name, value in data.items():
            if name in schema["properties"]:
                yield from unlisted(schema["properties"][name], value, f"{path}.{name}")
            elif "additionalProperties" not in schema:
                yield f"{path}.{name}"
    elif isinstance(data, dict) and isinstance(schema.get("additionalProperties"), dict):
        for name, value in data.items():
            yield from unlisted(schema["additionalProperties"], value, f"{path}.{name}")
    elif isinstance(data, list) and "items" in schema:
        for value in data:
            yield from unlisted(schema["items"], value, f"{path}[]")


@pytest.mark.parametrize(
    ("name", "argv"),
    [pytest.param(name, argv, id=" ".join(argv)[:60]) for name, calls in CALLS.items() for argv in calls],
)
def test_what_is_printed_is_what_the_schema_says(mbpack: Call, files: Path, name: str, argv: tuple[str, ...]) -> None:
    schema = json.loads(mbpack("schema", name).out)
    assert schema == SCHEMAS[name]()
    jsonschema.Draft202012Validator.check_schema(schema)
    answer = mbpack(*argv)
    assert answer.code in (0, 1, 2), answer.err
    data = json.loads(answer.out)
    jsonschema.validate(data, schema)
    assert list(unlisted(schema, data)) == []


def test_each_report_has_a_schema_and_each_schema_a_report(mbpack: Call) -> None:
    assert set(KINDS) == {"overrides", *SCHEMAS}
    assert set(CALLS) == set(SCHEMAS)
    with_format = {name for name in COMMANDS if re.search(r"^  --format", mbpack(name, "--help").out, re.M)}
    assert with_format == {"doctor" if name == "report" else name for name in SCHEMAS}


def test_a_word_that_is_no_format_is_refused_by_all(mbpack: Call) -> None:
    needed = {"list": ("rules",), "plan": ("rows.txt",), "lengths": ("rows.txt",), "migrate": ("a.yaml", "--to", "0.6")}
    for name in SCHEMAS:
        command = "doctor" if name == "report" else name
        answer = mbpack(command, *needed.get(command, ()), "--format", "jsn")
        assert (answer.code, answer.out) == (2, ""), command
        assert "did you mean json?" in answer.err, command


# ---------------------------------------------------------------------- what they say


def test_explain_has_the_parts_of_a_rule(mbpack: Call) -> None:
    rule = json.loads(mbpack("explain", "align/pad-seq-to-mult-cp", "--format", "json").out)["rule"]
    assert rule["code"] == "ALN101"
    assert rule["url"].endswith("/rules/ALN101.html")
    assert rule["bad"]
    assert rule["good"]


def test_init_tells_what_it_wrote(mbpack: Call, folder: Path) -> None:
    told = json.loads(mbpack("init", *INIT, "--cp", "2", "--yes", "--format", "json").out)
    assert told["written"] is True
    assert (folder / told["path"]).read_text() == told["text"]
    assert told["settings"]["model.context_parallel_size"] == 2
    assert {"name": "data parallel", "value": "2", "because": told["derived"][0]["because"]} == told["derived"][0]
    assert told["next"][-1]["shell"] == "mbpack doctor packing.yaml --strict"
    again = json.loads(mbpack("init", *INIT, "--cp", "2", "--yes", "--format", "json").out)
    assert again == told | {"written": False}
    other = mbpack("init", *INIT, "--yes", "--format", "json")
    assert (other.code, other.out) == (2, "")
    assert "exists and differs" in other.err


def test_init_for_machines_never_asks(mbpack: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbpack.wizard.prompt.has_terminal", lambda: True)
    answer = mbpack("init", "--bridge", "0.6", "--format", "json")
    assert (answer.code, answer.out) == (2, "")
    assert "--recipe or --family" in answer.err


def test_migrate_tells_and_writes_the_same(mbpack: Call, files: Path) -> None:
    (shown,) = json.loads(mbpack("migrate", "old.yaml", "--to", "0.6", "--diff", "--format", "json").out)["files"]
    assert shown["written"] is None
    assert (files / "old.yaml").read_text() == OLD
    (done,) = json.loads(mbpack("migrate", "old.yaml", "--to", "0.6", "--format", "json").out)["files"]
    assert done == shown | {"written": "old.yaml"}
    assert (files / "old.yaml").read_text() == done["text"]
    assert "offline_packing_specs" in done["text"]


def test_the_version_policy_is_told() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert "schema_version" in readme
    assert all(f"`{name}`" in readme for name in SCHEMAS)
