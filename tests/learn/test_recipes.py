"""What made-up recipes return, read from their sources; nothing of them is ever run."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from mbpack.cli.main import run
from mbpack.facts import learned, recipes
from mbpack.learn.lists.fields import Reader
from mbpack.learn.lists.tree import open_tree
from mbpack.learn.recipes.names import recipe_names
from mbpack.learn.recipes.read import NO_CONTAINER, Read, read_recipe

FILES = {
    "core/model_parallel_config.py": """
        from dataclasses import dataclass
        @dataclass
        class ModelParallelConfig:
            context_parallel_size: int = 1
            sequence_parallel: bool = False
    """,
    "bridge/__init__.py": "from megatron.bridge.models.conversion.auto_bridge import AutoBridge\n",
    "bridge/models/conversion/auto_bridge.py": """
        class AutoBridge:
            def convert(self, provider, on):
                provider.sequence_parallel = on
    """,
    "bridge/training/parts.py": """
        import torch
        from dataclasses import dataclass, field
        from enum import Enum

        class Kind(Enum):
            near = 1
            far = 2

        @dataclass
        class Loader:
            workers: int = 2
            shuffled: bool = True

        @dataclass
        class Nested:
            size: int = 0
            tags: dict = field(default_factory=dict)

        @dataclass
        class Data(Loader):
            length: int = 128
            nested: Nested = field(default_factory=Nested)
            kind: Kind = Kind.near
            dtype: torch.dtype = torch.float32
            fn: object = None
            note: str | None = None

            def __post_init__(self):
                if self.length > 1000:
                    self.note = "long"

        @dataclass(init=False)
        class Wrapped(Data):
            extra: int = 0

            def __init__(self, width, *args, **kwargs):
                loader = {k: kwargs.pop(k) for k in list(kwargs) if k in Loader.__dataclass_fields__}
                Data.__init__(self, *args, **kwargs)
                for name, value in loader.items():
                    setattr(self, name, value)
                self.extra = width * 2

        @dataclass
        class Synced:
            left: bool = False
            right: bool | None = None

            def __setattr__(self, name, value):
                object.__setattr__(self, name, value)
                if name == "left" and self.right != value:
                    object.__setattr__(self, "right", value)

        class Aliased(Nested):
            @property
            def width(self):
                return self.size

            @width.setter
            def width(self, value):
                self.size = value + 1
    """,
    "bridge/training/config.py": """
        from dataclasses import dataclass, field
        from megatron.bridge.training.parts import Data, Nested, Synced
        from typing import Any

        @dataclass
        class TrainingConfig:
            iters: int | None = None
            batch: int = 1

        @dataclass
        class ConfigContainer:
            model: Any
            train: TrainingConfig
            dataset: Data
            rng: Nested = field(default_factory=Nested)
            precision: Synced | str | None = None
            peft: Nested | None = None
            env_vars: dict[str, str] | None = None
    """,
    "bridge/recipes/__init__.py": """
        from megatron.bridge.recipes.own import *
        from megatron.bridge.recipes.own import first_1gpu_config as first_config
    """,
    "bridge/recipes/common.py": """
        import os
        from megatron.bridge.training.config import ConfigContainer, TrainingConfig
        from megatron.bridge.training.parts import Data

        BASE = {"A": "1"}

        def _sft_common():
            folder = os.path.join(os.getcwd(), "out")
            return ConfigContainer(model=None, train=TrainingConfig(iters=10 * 2), dataset=Data(note=folder), env_vars={**BASE})
    """,
}


def tree(root: Path, body: str, extra: dict[str, str] | None = None) -> Path:
    """A checkout whose recipes are ``body``."""
    files = {**FILES, "bridge/recipes/own.py": HEAD + dedent(body), **(extra or {})}
    files["bridge/package_info.py"] = 'MAJOR = 0\nMINOR = 8\nPATCH = 0\nPRE_RELEASE = "rc1"\n'
    for name, text in files.items():
        path = root / "src" / "megatron" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return root


HEAD = dedent("""
    import os
    import torch
    from copy import deepcopy
    from dataclasses import replace
    from functools import partial
    from transformers import AutoConfig
    from megatron.bridge import AutoBridge
    from megatron.bridge.recipes.common import _sft_common
    from megatron.bridge.training.config import ConfigContainer, TrainingConfig
    from megatron.bridge.training.parts import Aliased, Data, Kind, Nested, Synced, Wrapped
""")


def read(root: Path, body: str, name: str = "one_config") -> Read:
    """One recipe of a checkout whose recipes are ``body``."""
    reader = Reader(open_tree(str(tree(root, body))))
    return read_recipe(reader, recipe_names(reader.tree).functions[name])


def values(root: Path, lines: str) -> dict[str, Any]:
    """What a recipe holds that does these lines to the common start; what that holds itself is left out."""
    found = read(
        root,
        "def one_config():\n    cfg = _sft_common()\n"
        + dedent(lines).replace("\n", "\n    ").join(("    ", "\n    return cfg\n")),
    )
    assert not found.why
    return {
        k: v for k, v in found.values.items() if k not in ("model", "train.iters", "dataset.note", "env_vars")
    } | dict.fromkeys(found.open, "?")


def test_the_common_start(tmp_path: Path) -> None:
    found = read(tmp_path, "def one_config():\n    return _sft_common()\n")
    assert found.values == {
        "model": None,
        "train.iters": 20,
        "dataset.note": {"~": "<absolute path>"},
        "dataset.nested._target_": "megatron.bridge.training.parts.Nested",
        "env_vars": {"A": "1"},
    }
    assert found.open == []
    assert found.classes["dataset"] == "megatron.bridge.training.parts.Data"


NESTED = {"dataset.nested._target_": "megatron.bridge.training.parts.Nested"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("cfg.train.batch = 2 if cfg.train.iters > 5 else 3", {"train.batch": 2}),
        ("cfg.train.batch = 1", {}),
        ("cfg.dataset.kind = Kind.far", {"dataset.kind": {"~": "<enum Kind.far>"}}),
        ("cfg.dataset.dtype = torch.bfloat16", {"dataset.dtype": "torch.bfloat16"}),
        ("cfg.dataset.dtype = torch.float32", {}),
        ("cfg.dataset.fn = partial(_sft_common)", {"dataset.fn": {"~": "<callable _sft_common>"}}),
        ("cfg.dataset.nested.tags['a'] = [1, 2]", {"dataset.nested.tags": {"a": [1, 2]}}),
        ("cfg.rng.size += 4", {"rng.size": 4}),
        ("cfg.peft = Nested(7)", {"peft._target_": "megatron.bridge.training.parts.Nested", "peft.size": 7}),
        ("cfg.dataset = Data(length=2000)", {"dataset.length": 2000, "dataset.note": "long"}),
        ("cfg.dataset = replace(cfg.dataset, length=2000)", {"dataset.length": 2000, "dataset.note": "long"}),
        (
            "other = deepcopy(cfg)\nother.train.batch = 9\ncfg.train.batch = other.train.batch - 1",
            {"train.batch": 8},
        ),
        ("for key, value in {'batch': 5}.items():\n    setattr(cfg.train, key, value)", {"train.batch": 5}),
        ("if isinstance(cfg.dataset, Data) and not isinstance(cfg.train, Nested):\n    cfg.train.batch = 6", {"train.batch": 6}),
        ("cfg.train.batch = getattr(cfg.train, 'nothing', 3)", {"train.batch": 3}),
        ("cfg.precision = 'bf16'", {"precision": "bf16"}),
        ("cfg.train.batch = int(os.environ.get('BATCH', '4'))", {"train.batch": 4}),
    ],
)
def test_lines_of_a_recipe(tmp_path: Path, lines: str, expected: dict[str, Any]) -> None:
    found = values(tmp_path, lines)
    found.pop("rng._target_", None)
    note = {"dataset.note": "long"} if "dataset.note" in expected else {}
    if note:
        whole = read(tmp_path / "again", "def one_config():\n    cfg = _sft_common()\n    " + lines + "\n    return cfg\n")
        assert whole.values["dataset.note"] == "long"
    assert found == {**NESTED, **{key: value for key, value in expected.items() if key not in note}}


def test_classes_with_their_own_start(tmp_path: Path) -> None:
    found = values(tmp_path, "cfg.dataset = Wrapped(3, length=64, workers=8)")
    assert found == {**NESTED, "dataset.length": 64, "dataset.workers": 8, "dataset.extra": 6}
    found = values(
        tmp_path / "b", "cfg.precision = Synced(left=True)\ncfg.precision.left = False\ncfg.peft = Aliased()\ncfg.peft.width = 4"
    )
    assert found == {
        **NESTED,
        "precision._target_": "megatron.bridge.training.parts.Synced",
        "precision.right": False,
        "peft._target_": "megatron.bridge.training.parts.Aliased",
        "peft.size": 5,
    }


def test_a_model_of_a_public_configuration(tmp_path: Path) -> None:
    body = """
        NAME = "someone/model"

        def one_config():
            cfg = _sft_common()
            cfg.model = AutoBridge.from_hf_pretrained(NAME).to_megatron_provider(load_weights=False)
            cfg.model.layers = 4
            if cfg.model.context_parallel_size > 1:
                cfg.train.batch = 7
            if cfg.model.sequence_parallel:
                cfg.train.iters = 1
            cfg.dataset.length = cfg.model.length
            return cfg
    """
    found = read(tmp_path, body)
    assert found.hf_id == "someone/model"
    assert found.values["model.layers"] == 4
    assert "train.batch" not in found.values  # no conversion sets the context parallel size
    assert found.open == ["model", "train.iters", "dataset.length"]  # one does set sequence parallelism


def test_a_recipe_may_end_with_its_number_of_nodes(tmp_path: Path) -> None:
    body = "def one_config_32nodes():\n    return _sft_common()\n\ndef one_config_of(name='a'):\n    return name\n"
    assert read(tmp_path, body, "one_config_32nodes").why == ""
    assert list(recipe_names(open_tree(str(tmp_path))).functions) == ["one_config_32nodes"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise ValueError('gone')", "it stops with an error"),
        ("return 3", "what it returns is not known"),
        ("return one_config()", "what it returns is not known"),
        ("while True:\n        pass", "what it returns is not known"),
        ("return open('/etc/passwd').read()", "what it returns is not known"),
        ("return Data()", NO_CONTAINER),
        (
            "cfg = _sft_common()\n    exec('cfg = None')\n    import nothing.at.all\n    return unknown(cfg)",
            "what it returns is not known",
        ),
        ("return " + "(" * 90 + "_sft_common()" + ")" * 90, ""),
        ("return " + "-" * 700 + "1", "it is nested too deep"),
        ("x = [0] * 10**12\n    return 2 ** 10 ** 9", "what it returns is not known"),
        (
            "for a in range(60):\n        for b in range(60):\n            for c in range(60):\n                a = a + b + c",
            "it is too long to be followed",
        ),
    ],
)
def test_recipes_that_cannot_be_read_say_why(tmp_path: Path, body: str, why: str) -> None:
    assert read(tmp_path, f"def one_config():\n    {body}\n").why == why


def test_a_recipe_that_would_do_harm_is_only_read(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    body = (
        f"open({str(mark)!r}, 'w').write('run')\n\ndef one_config():\n    os.system('touch {mark}')\n    return _sft_common()\n"
    )
    assert read(tmp_path, body).values["train.iters"] == 20
    assert not mark.exists()


def test_what_a_foreign_function_gets_is_not_known_afterwards(tmp_path: Path) -> None:
    assert values(tmp_path, "from elsewhere import tune\ntune(cfg.train)") == {**NESTED, "train": "?"}


def test_names(tmp_path: Path) -> None:
    body = """
        def first_1gpu_config():
            return _sft_common()

        def needs_config(size):
            return _sft_common()

        def _own_config():
            return _sft_common()
    """
    perf = "def first_1gpu_config():\n    return None\n\ndef big_pretrain_8gpu_config():\n    return None\n"
    found = recipe_names(open_tree(str(tree(tmp_path, body, {"bridge/perf_recipes/a.py": perf}))))
    assert list(found.functions) == ["first_1gpu_config", "perf:first_1gpu_config", "big_pretrain_8gpu_config"] or set(
        found.functions
    ) == {"first_1gpu_config", "big_pretrain_8gpu_config", "perf:first_1gpu_config"}
    assert list(found.bases) == ["_sft_common"]
    assert found.aliases == {"first_config": "first_1gpu_config"}


@pytest.fixture
def learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of a checkout with three recipes; the cache is the test's own."""
    monkeypatch.setenv("MBPACK_CACHE_DIR", str(tmp_path / "cache"))
    learned.forget_read()
    body = """
        def first_1gpu_config():
            cfg = _sft_common()
            cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B").to_megatron_provider(load_weights=False)
            cfg.model.layers = 4
            cfg.train.batch = unknown()
            return cfg

        def broken_config():
            raise ValueError

        def default_squad_config():
            return Data()
    """
    tree(tmp_path / "checkout", body)
    assert run(["learn", "--from", str(tmp_path / "checkout")]) == 0
    learned.forget_read()
    return capsys.readouterr().out


def test_what_was_learned_is_found(learnt: str) -> None:
    found = recipes.find_learned("nightly", "0.8.0rc1", "first_config")
    assert found is not None
    assert found.values["train.iters"] == 20
    assert found.unread == {"train.batch"}
    assert not found.complete
    assert found.gpus == 1
    assert found.hf_id == "meta-llama/Meta-Llama-3-8B"
    assert found.model_class is not None  # as in a known recipe of the same public model
    assert "model.num_layers" in found.likely
    assert recipes.find_learned("nightly", "0.8.0rc1", "broken_config") is None
    assert recipes.find_learned("nightly", "0.8.0rc1", "default_squad_config") is None
    assert "1 by name alone: it stops with an error" in learnt
    assert "train.batch (1)" in learnt


def test_a_damaged_file_of_recipes_is_no_knowledge(learnt: str) -> None:
    path = Path(learned.recipes_path_of("0.8.0rc1"))
    for text in (b"", b"\nfirst_1gpu_config\t{", b"\nfirst_1gpu_config\t[1]\n", b"\nfirst_1gpu_config\t", b"\xff\x00"):
        path.write_bytes(text)
        learned.forget_read()
        assert learned.recipe("0.8.0rc1", "first_1gpu_config") is None
    path.unlink()
    learned.forget_read()
    assert learned.recipe("0.8.0rc1", "first_1gpu_config") is None


def test_a_name_that_the_learned_version_lacks_is_said(learnt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for name in ("broken_config", "frist_1gpu_config", "first_config"):
        file = tmp_path / "a.yaml"
        file.write_text(f"# mbpack: bridge=0.8.0rc1 recipe={name} gpus=1\ntrain: {{batch: 2}}\n")
        run(["doctor", str(file), "--format", "json"])
        said[name] = json.dumps(json.loads(capsys.readouterr().out)["files"][0])
    assert "learned by its name alone" in said["broken_config"]
    assert "did you mean first_1gpu_config" in said["frist_1gpu_config"]
    assert "first_config" not in json.loads(said["first_config"]).get("error", "")


def test_forgetting_takes_both_files(learnt: str) -> None:
    assert Path(learned.recipes_path_of("0.8.0rc1")).exists()
    assert run(["learn", "--forget", "0.8.0rc1"]) == 0
    assert not Path(learned.recipes_path_of("0.8.0rc1")).exists()
    learned.forget_read()
