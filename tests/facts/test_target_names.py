"""What a ``_target_`` path leads to, per release."""

from __future__ import annotations

import pytest

from mbpack.facts.names import NOWHERE, names
from mbpack.facts.schema import classes, schema

HARVESTED = ("0.3", "0.4", "0.5", "0.6")
CONFIG = "megatron.bridge.training.config"


@pytest.mark.parametrize("release", HARVESTED)
@pytest.mark.parametrize("kind", ["section", "model", "dataset", "peft", "nested", "base"])
def test_every_configuration_class_is_a_class_that_can_be_called(release: str, kind: str) -> None:
    for cls in classes(release, kind):
        path = schema(release).path(cls)
        assert path is not None
        if path.startswith("megatron.energon."):
            continue  # a library of its own
        found = names(release).locate(path)
        assert found is not None, path
        assert (found.kind, found.path) == ("class", path)
        assert found.callable


@pytest.mark.parametrize("release", HARVESTED)
def test_a_field_without_default_is_an_argument_that_cannot_be_left_out(release: str) -> None:
    found = names(release).locate("megatron.bridge.training.comm_overlap.CommOverlapConfig")
    assert found is not None
    assert found.required == ("tp_comm_overlap",)
    mock = names(release).locate(f"{CONFIG}.MockGPTDatasetConfig")
    assert mock is not None
    assert {"seq_length", "random_seed"} <= set(mock.required)


@pytest.mark.parametrize("release", HARVESTED)
@pytest.mark.parametrize(
    "target",
    [
        f"{CONFIG}.LogerConfig",
        "megatron.bridge.trainin.config.LoggerConfig",
        "megatron.core.nope",
        "megatron.nope.X",
        "megatron.core.transformer.enums.AttnBackend.nope",
        "torch.bfloat17",
        "torch.",
        "megatron.",
    ],
)
def test_what_leads_to_nothing(release: str, target: str) -> None:
    found = names(release).locate(target)
    assert found is NOWHERE or (target == "megatron.nope.X" and found is None)


@pytest.mark.parametrize("release", HARVESTED)
def test_kinds(release: str) -> None:
    known = names(release)
    for target, kind in (
        (CONFIG, "module"),
        ("torch.bfloat16", "dtype"),
        ("megatron.core.transformer.enums.AttnBackend", "enum"),
        ("megatron.core.transformer.enums.AttnBackend.flash", "member"),
        ("megatron.bridge.training.mixed_precision.bf16_mixed", "function"),
        ("megatron.core.optimizer.OptimizerConfig", "class"),
        ("megatron.bridge.peft.base.PEFT", "class"),
    ):
        found = known.locate(target)
        assert found is not None, target
        assert found.kind == kind, target
    abstract = known.locate("megatron.bridge.peft.base.PEFT")
    assert abstract is not None
    assert abstract.abstract


@pytest.mark.parametrize(
    "target",
    [
        "myproject.Model",
        "torch.nn.Linear",
        f"{CONFIG}.dataclass",
        f"{CONFIG}.LoggerConfig.nope",
        "megatron.bridge.recipes.llama.llama3.nope",
    ],
)
def test_what_is_not_known_is_not_denied(target: str) -> None:
    for release in HARVESTED:
        assert names(release).locate(target) is None


def test_a_release_without_harvest_knows_nothing() -> None:
    assert not names("0.7").known
    assert names("0.7").locate(f"{CONFIG}.LogerConfig") is None
    assert names("nightly").allows("os.system") is None


def test_a_class_by_another_path_is_the_class_itself() -> None:
    found = names("0.6").locate("megatron.bridge.training.mixed_precision.OptimizerConfig")
    assert found is not None
    assert found.kind == "class"
    assert found.path.endswith(".OptimizerConfig")


def test_what_a_release_instantiates() -> None:
    assert names("0.3").allows("os.getcwd")
    assert not names("0.4").allows("os.getcwd")
    assert not names("0.6").allows("torch.load")
    assert not names("0.6").allows("torch._C.x")
    assert names("0.6").allows("torch._C._nn.gelu")
    assert names("0.6").allows("signal.Signals")
    assert not names("0.4").allows("signal.Signals")
