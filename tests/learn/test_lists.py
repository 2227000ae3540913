"""Fields of a made-up package are those that Python's dataclasses would have, without importing it."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from mbpack.cli.main import run
from mbpack.facts import learned
from mbpack.facts.knowledge import lists_complete, newer, reach
from mbpack.facts.releases import version_found
from mbpack.facts.schema import Schema
from mbpack.learn.lists.fields import Reader
from mbpack.learn.lists.tree import SourceError, open_tree

CORE = """
    from dataclasses import dataclass, field
    from enum import Enum
    from typing import Callable, List, Literal, Optional, Union
    import torch

    class Backend(Enum):
        fast = 1
        slow = 2

    @dataclass
    class TransformerConfig:
        num_layers: int = 0
        kind: Literal['a', "b"] = 'a'
        backend: Backend = Backend.fast
        sizes: Optional[List[int]] = None
        act: Callable[[int], int] = torch.nn.functional.gelu
        dtype: torch.dtype = torch.float32
        scale: float = 1 / 2 ** 3
        pattern: Union[int, List[int]] = field(default_factory=lambda: [0] * 2 + [1])
        hidden: dict[str, int] = field(init=False, default_factory=dict)
        fused: bool = field(default_factory=lambda: probe())
"""
PROVIDER = """
    from __future__ import annotations
    from dataclasses import dataclass, field
    from typing import ClassVar, TYPE_CHECKING
    from megatron.core.transformer.transformer_config import TransformerConfig
    from megatron.bridge.models.model_provider import ModelProviderMixin
    if TYPE_CHECKING:
        from somewhere import Thing

    DEPTH = 4

    def spec():
        return 1

    @dataclass(kw_only=True)
    class GPTModelProvider(TransformerConfig, ModelProviderMixin):
        name: ClassVar[str] = "x"
        num_layers: int
        depth: int = DEPTH
        layer: object = spec
        thing: Thing | None = None
        path: str = "/nowhere"

    class Plain(GPTModelProvider):
        pass

    @dataclass
    class Newest(GPTModelProvider):
        extra: bool = True
"""
CONFIG = """
    from dataclasses import dataclass, field
    from megatron.bridge.models.gpt_provider import GPTModelProvider

    @dataclass
    class TrainingConfig:
        train_iters: int | None = None
        micro_batch_size: int | None = None
        brand_new: bool = False

    @dataclass
    class ConfigContainer:
        train: TrainingConfig
        model: GPTModelProvider
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of a version that mbpack does not know, and an empty cache."""
    monkeypatch.setenv("MBPACK_CACHE_DIR", str(tmp_path / "cache"))
    learned.forget_read()
    root = tmp_path / "checkout"
    files = {
        "src/megatron/core/transformer/transformer_config.py": CORE,
        "src/megatron/bridge/models/gpt_provider.py": PROVIDER,
        "src/megatron/bridge/models/model_provider.py": "class ModelProviderMixin:\n    pass\n",
        "src/megatron/bridge/training/config.py": CONFIG,
        "src/megatron/bridge/package_info.py": 'MAJOR = 0\nMINOR = 8\nPATCH = 0\nPRE_RELEASE = "rc1"\n',
        "src/megatron/bridge/broken.py": "def (",
        "src/megatron/bridge/recipes/own.py": "def own_sft_config():\n    return 1\n\ndef _helper_config():\n    return 2\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return root


def test_fields_types_and_defaults(checkout: Path) -> None:
    reader = Reader(open_tree(str(checkout)))
    found = reader.at("megatron.bridge.models.gpt_provider.GPTModelProvider")
    assert found is not None
    assert found.fields == {
        "num_layers": ["int", 0],
        "kind": ["literal['a','b']", "a"],
        "backend": ["enum:Backend", {"~": "<enum Backend.fast>"}],
        "sizes": ["list[int]|null", None],
        "act": ["callable", {"~": "<callable gelu>"}],
        "dtype": ["torch.dtype", "torch.float32"],
        "scale": ["float", 0.125],
        "pattern": ["int|list[int]", [0, 0, 1]],
        "hidden": ["dict[str,int]", {}, 0],
        "fused": ["bool", {"~": "<unread>"}],
        "depth": ["int", 4],
        "layer": ["object", {"~": "<callable spec>"}],
        "thing": ["Thing|null", None],
        "path": ["str", {"~": "<absolute path>"}],
    }
    plain, newest = (reader.at(f"megatron.bridge.models.gpt_provider.{name}") for name in ("Plain", "Newest"))
    assert plain is not None
    assert newest is not None
    assert plain.fields == found.fields
    assert newest.fields == {**found.fields, "extra": ["bool", True]}


def test_a_learned_version_is_used_where_it_is_found(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version = version_found("0.8.0rc1")
    assert version is not None
    assert newer(version)
    assert run(["learn", "--from", str(checkout)]) == 0
    said = capsys.readouterr().out
    assert "Megatron-Bridge 0.8.0rc1" in said
    assert "Newest" in said
    assert "megatron.bridge.broken" in said
    assert not newer(version)
    assert lists_complete(version)
    assert reach(version).startswith("learned 0.8.0rc1 from")
    known = Schema("nightly", "0.8.0rc1")
    assert "brand_new" in (known.fields("TrainingConfig") or {})
    assert known.class_of("megatron.bridge.models.gpt_provider.Newest") == "Newest"
    assert "brand_new" not in (Schema("nightly", "0.8.0rc1", shipped=True).fields("TrainingConfig") or {})


def test_the_doctor_judges_with_it(checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "a.yaml").write_text("train: {train_iters: 10, brand_new: true, brand_old: 1}\n")
    monkeypatch.chdir(checkout)
    unknown = doctor(capsys)
    assert {key: unknown[key] for key in ("train.brand_new", "train.brand_old")} == {
        "train.brand_new": "warning",
        "train.brand_old": "warning",
    }
    assert run(["learn"]) == 0
    capsys.readouterr()
    known = doctor(capsys)
    assert "train.brand_new" not in known
    assert known["train.brand_old"] == "error"
    assert run(["learn", "--forget", "0.8.0rc1"]) == 0
    learned.forget_read()
    assert run(["learn", "--forget", "0.8.0rc1"]) == 2


def doctor(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Key -> severity of what the doctor says about unknown keys, each run with nothing remembered."""
    from mbpack.facts import schema

    schema.schema.cache_clear()
    run(["doctor", "a.yaml", "--format", "json"])
    (file,) = json.loads(capsys.readouterr().out)["files"]
    return {finding["key"]: finding["severity"] for finding in file["findings"] if finding["slug"] == "cfg/yaml-unknown-key"}


def test_a_recipe_known_by_name_is_not_denied(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "a.yaml").write_text("# mbpack: recipe=own_sft_config\ntrain: {train_iters: 10}\n")
    monkeypatch.chdir(checkout)
    assert run(["learn"]) == 0
    assert "1 by name" in capsys.readouterr().out
    run(["doctor", "a.yaml"])
    assert "own_sft_config is a recipe of 0.8.0rc1, learned by its name alone" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_paths_without_sources(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError):
        open_tree(str(tmp_path / name))
    assert run(["learn", "--from", str(tmp_path)]) == 2
    assert "megatron/bridge is not there" in capsys.readouterr().err


def test_a_version_that_is_stated_nowhere_is_asked_for(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "src/megatron/bridge/package_info.py").unlink()
    assert run(["learn", "--from", str(checkout), "--dry-run"]) == 2
    assert "--bridge" in capsys.readouterr().err
    assert run(["learn", "--from", str(checkout), "--bridge", "0.6.2", "--dry-run"]) == 0
    assert "Kept in" not in capsys.readouterr().out


def test_the_review_list_of_a_new_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Path(__file__).resolve().parents[2] / "tools"
    texts = {
        "old": ("size: int = 1\n    width_of_rows: int = 4", "if self.size < 0:\n            raise ValueError"),
        "new": ("size: int = 2\n    width_of_row: int = 4", "if self.size < 1:\n            raise ValueError"),
    }
    for name, (fields, check) in texts.items():
        package = tmp_path / name / "megatron" / "bridge"
        (package / "training").mkdir(parents=True)
        (package / "recipes").mkdir()
        (package / "training" / "config.py").write_text(
            f"from dataclasses import dataclass\n\n@dataclass\nclass TrainingConfig:\n    {fields}\n\n"
            f"    def finalize(self):\n        {check}\n\n@dataclass\nclass ConfigContainer:\n    train: TrainingConfig = None\n"
        )
        size = {"old": 1, "new": 2}[name]
        (package / "recipes" / "own.py").write_text(
            "from megatron.bridge.training.config import ConfigContainer, TrainingConfig\n\n"
            f"def {name}_sft_config():\n    pass\n\n"
            f"def kept_sft_config():\n    return ConfigContainer(train=TrainingConfig(size={size * 8}))\n"
        )
    monkeypatch.syspath_prepend(str(tools))
    monkeypatch.setattr("sys.argv", ["review_release.py", str(tmp_path / "old"), str(tmp_path / "new")])
    import review_release

    review_release.main()
    said = capsys.readouterr().out
    assert "    renamed  width_of_rows -> width_of_row\n    default  size: [1] -> [2]\n" in said
    assert "bridge.training.config.TrainingConfig.finalize\n    -self.size < 0\n    +self.size < 1\n" in said
    assert "new   new_sft_config\ngone  old_sft_config\ntrain.size: 8 -> 16  (kept_sft_config)\n" in said
