"""Which watched keys a configuration writes: in any file or argument, or perhaps, where something covers them up."""

from __future__ import annotations

import pytest

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.overrides import parse_overrides
from mbpack.config.watch import Watch
from mbpack.facts.releases import R03, R06

WATCHED = {
    "sizes": ("model.num_layers", "model.hidden_size"),
    "names": ("logger.comet_project", "model.hidden_size"),
    "sections": ("comm_overlap",),
    "steps": ("validation.eval_iters",),
}
COMPLETE = "_target_: megatron.bridge.training.config.ConfigContainer\n"


def seen(*texts: str, bridge: str = "0.6", arguments: tuple[str, ...] = ()) -> set[str]:
    documents = [parse(text) for text in texts]
    run = build_run(resolve_context(Given(bridge), Given(), documents), documents, parse_overrides(arguments))
    return set(Watch(R06 if bridge == "0.6" else R03, WATCHED).seen(run.settings))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train: {train_iters: 1}", set()),
        ("model: {num_layers: 2}", {"sizes"}),
        ("model: {num_layers: null}", {"sizes"}),
        ("model: {hidden_size: 2}", {"sizes", "names"}),
        ("model: {kv_channels: 2}\nlogger: {comet_project: a}", {"names"}),
        ("model: {transformer: {hidden_size: 2}}", {"sizes", "names"}),
        ("comm_overlap: null", {"sections"}),
        ("model: ${other}", {"sizes", "names"}),
        ("model: [1]", {"sizes", "names"}),
        ("model: null", set()),
        ("model: {_target_: a.B}", {"sizes", "names"}),
        (f"{COMPLETE}model: {{_target_: a.B}}", set()),
        (f"{COMPLETE}model: {{_target_: a.B, _args_: [1]}}", {"sizes", "names"}),
        (f"{COMPLETE}model: {{_target_: a.B, num_layers: 1}}", {"sizes"}),
    ],
)
def test_what_a_file_writes(text: str, names: set[str]) -> None:
    assert seen(text) == names


def test_every_layer_counts() -> None:
    lower, upper = "model: {num_layers: 2}", "logger: {comet_project: a}"
    assert seen(lower, upper) == seen(upper, lower) == {"sizes", "names"}
    assert seen(upper, arguments=("comm_overlap.tp_comm_overlap=true",)) == {"names", "sections"}


def test_keys_are_those_of_the_release() -> None:
    assert seen("validation: {eval_iters: 1}") == seen("train: {eval_iters: 1}", bridge="0.3") == {"steps"}
    assert seen("train: {eval_iters: 1}") == set()
