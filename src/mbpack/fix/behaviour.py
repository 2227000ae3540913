"""What a configuration will do differently in another release although no key shows it."""

from __future__ import annotations

from collections.abc import Callable

from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.migration import BEHAVIOUR
from mbpack.facts.releases import Release


def behaviour(source: Release, target: Release, run: Run | None) -> list[str]:
    """The differences on the way from one release to another that concern a run; all of them where that is unknown."""
    low, high = (source, target) if source < target else (target, source)
    back = "" if source < target else "no longer so: "
    return [
        f"{entry.since}: {back}{entry.text}"
        for entry in BEHAVIOUR
        if low < entry.since <= high and (run is None or _concerns(run, entry.concerns))
    ]


def _concerns(run: Run, what: str) -> bool:
    check = _CHECKS.get(what)
    if check is None:
        return True
    try:
        return check(run)
    except (Unknown, WrongKind):
        return True


def _chat(run: Run) -> bool:
    kwargs = run.settings.mapping("dataset.dataset_kwargs")
    chat = kwargs.get("chat")
    return run.offline and chat is not None and bool(chat.value)


def _template(run: Run) -> bool:
    """Whether conversations leave it to the release how they are rendered."""
    kwargs = run.settings.mapping("dataset.dataset_kwargs")
    chat = kwargs.get("chat")
    return chat is not None and bool(chat.value) and "use_hf_tokenizer_chat_template" not in kwargs


def _hybridep(run: Run) -> bool:
    kind, backend = run.maybe("model.moe_token_dispatcher_type"), run.maybe("model.moe_flex_dispatcher_backend")
    return bool(kind == "flex" and backend == "hybridep")


_CHECKS: dict[str, Callable[[Run], bool]] = {
    "offline": lambda run: run.offline,
    "in_batch": lambda run: run.in_batch,
    "online": lambda run: run.global_batch,
    "chat": _chat,
    "template": _template,
    "hybridep": _hybridep,
    "hf": lambda run: run.settings.class_at("dataset") in ("HFDatasetConfig", "GPTSFTDatasetConfig"),
    "evaluation": lambda run: any(run.wrote(f"validation.{name}") for name in ("eval_iters", "eval_interval", "skip_train")),
    "launcher": lambda run: run.context.launcher == "run_recipe",
}
