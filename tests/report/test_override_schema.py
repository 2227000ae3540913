"""The JSON Schema of override files: takes what people and runs have, finds what is wrong, and editors are led to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mbpack.cli.main import run
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.report.override_schema import override_schema
from tests.conformance import dumps

ROOT = Path(__file__).parents[2]
RELEASES = sorted(path.name.partition(".jsonl")[0] for path in dumps.FOLDER.glob("*.jsonl.xz"))
SLICE = 60


class Loader(yaml.CSafeLoader):
    """Sets, which `to_yaml` writes and no JSON has, are read as lists."""


Loader.add_constructor("tag:yaml.org,2002:set", lambda loader, node: list(loader.construct_mapping(node)))


def refused(release: str, step: int) -> Iterator[str]:
    validator = jsonschema.Draft202012Validator(override_schema(release))
    for row in list(dumps.saved(release))[::step]:
        for error in validator.iter_errors(yaml.load(row["yaml"], Loader)):
            inner = max(error.context or [error], key=lambda one: len(one.absolute_path))
            yield f"{row['id']}: {'.'.join(map(str, inner.absolute_path))}: {inner.message[:200]}"


@pytest.mark.parametrize("release", RELEASES)
def test_a_slice_of_what_recipes_save_is_taken(release: str) -> None:
    assert list(refused(release, SLICE)) == []


@pytest.mark.conformance
@pytest.mark.parametrize("release", RELEASES)
def test_all_that_recipes_save_is_taken(release: str) -> None:
    assert list(refused(release, 1)) == []


def test_keys_that_are_saved_as_null_are_on_record() -> None:
    done = subprocess.run([sys.executable, "tools/saved_nulls.py", "--check"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() or "run python tools/saved_nulls.py"


# ---------------------------------------------------------------------- check-jsonschema


def check(folder: Path, *paths: str, release: str = "0.6") -> tuple[int, str]:
    schema = folder / f"{release}.schema.json"
    if not schema.exists():
        assert run(["schema", "overrides", "--bridge", release, "--output", str(schema)]) == 0
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema), *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_check_jsonschema_takes_the_ready_overrides(tmp_path: Path) -> None:
    ready = [path for path in sorted((ROOT / "recipes").glob("*.yaml")) if "bridge=0.6" in path.read_text(encoding="utf-8")]
    assert len(ready) > 5  # those of each release: tests/cli/test_ecosystem.py
    assert check(tmp_path, *map(str, ready))[0] == 0


def test_check_jsonschema_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("train: {micro_batch_sise: 1, global_batch_size: many}\n")
    code, out = check(tmp_path, str(tmp_path / "bad.yaml"))
    assert code == 1
    assert "micro_batch_sise" in out or "many" in out


# ---------------------------------------------------------------------- the line for editors

INIT = ["init", "--bridge", "0.6", "--recipe", "llama3_8b_sft_config", "--gpus", "8", "--yes"]


def judged(text: str) -> dict[str, Any]:
    result = judge(Request((parse(text),)))
    assert result.context is not None
    return {
        "recipe": result.context.recipe,
        "gpus": result.context.gpus,
        "verdict": result.verdict,
        "found": len(result.findings),
    }


def test_init_writes_the_line_that_editors_look_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(INIT) == 0
    plain = Path("packing.yaml").read_text()
    assert "yaml-language-server" not in plain
    assert run([*INIT, "--force", "--modeline", "mbpack.schema.json"]) == 0
    with_line = Path("packing.yaml").read_text()
    assert with_line == f"# yaml-language-server: $schema=mbpack.schema.json\n{plain}"
    assert judged(with_line) == judged(plain)
    assert judged(plain)["verdict"] == "accepted"


def test_the_line_is_refused_where_no_yaml_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*INIT, "--as", "overrides", "--modeline", "x.json"]) == 2
    assert "--modeline" in capsys.readouterr().err


def test_hover_texts_are_those_of_explain() -> None:
    properties = override_schema("0.6")["properties"]["train"]["anyOf"][0]["properties"]
    assert properties["micro_batch_size"]["description"]
    assert json.dumps(override_schema("0.6"), allow_nan=False)
