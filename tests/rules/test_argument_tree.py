"""The tree that arguments change, against Hydra itself: which arguments it refuses, and what it leaves."""

from __future__ import annotations

from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.overrides import parse_overrides
from mbpack.config.run import Run
from mbpack.rules.arguments.tree import judged
from tests.config.config_oracle import examples
from tests.conformance.one_field import written

#: No section of any release: nothing lies below what the file writes.
NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.sampled_from([None, 1, 2, "x", [1, 2], []])
TREES = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=6), max_size=3
)
KEYS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


ARGUMENTS = st.one_of(
    st.builds("{}{}={}".format, st.sampled_from(["", "+", "++"]), KEYS, st.one_of(LEAVES, TREES).map(written)),
    st.builds("~{}".format, KEYS),
    st.builds("~{}={}".format, KEYS, LEAVES.map(written)),
)


def _run(tree: dict[str, Any], arguments: list[str]) -> Run:
    document = parse(yaml.safe_dump(tree))
    context = resolve_context(Given(bridge="0.6", recipe="llama3_8b_sft_config", gpus=8), Given(), [document])
    return build_run(context, [document], parse_overrides(arguments))


def _hydra(tree: dict[str, Any], arguments: list[str]) -> Any:
    """The tree that Hydra leaves, or None where it refuses an argument."""
    config = OmegaConf.create(tree)
    OmegaConf.set_struct(config, True)
    try:
        ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(arguments), config)
    except Exception:  # of Hydra, of OmegaConf, and what both let through
        return None
    return OmegaConf.to_container(config)


def _refused(run: Run) -> bool:
    return any(
        one.place is None
        or one.fault
        or one.clashes
        or (one.place.kind != "exists" and (one.override.op in ("set", "delete") or one.place.kind == "beyond"))
        or (one.lacking and one.override.op == "set")
        for one in judged(run)
    )


def _merged(run: Run) -> dict[str, Any]:
    tree = OmegaConf.create({})
    for layer in reversed(run.settings.layers):
        tree = OmegaConf.merge(tree, layer.root.plain)
    return OmegaConf.to_container(tree)  # type: ignore[return-value]


@examples(400)
@given(TREES, st.lists(ARGUMENTS, min_size=1, max_size=3))
def test_arguments_are_refused_where_hydra_refuses_them_and_leave_what_it_leaves(
    tree: dict[str, Any], arguments: list[str]
) -> None:
    real, run = _hydra(tree, arguments), _run(tree, arguments)
    assert _refused(run) == (real is None)
    if real is not None:
        assert _pruned(_merged(run)) == _pruned(real)


def _pruned(value: Any) -> Any:
    """Without empty mappings: a layer does not tell one from a mapping whose keys a higher layer took away."""
    if not isinstance(value, dict):
        return value
    return {name: _pruned(child) for name, child in value.items() if _pruned(child) != {}}
