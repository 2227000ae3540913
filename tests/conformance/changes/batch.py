"""Packing modes, batch sizes and the schedule."""

from __future__ import annotations

from typing import Any

from ..draft import Draft
from .registry import energon, in_batch, later, offline, pick, text, violation


@violation(offline)
def offline_mbs(d: Draft) -> None:
    d.set_mbs(pick(d, 2, 4))


@violation(offline)
def offline_size(d: Draft) -> None:
    d.specs()["packed_sequence_size"] = pick(d, 0, -1, 1, d.seq * 2)


@violation(lambda d: later(d) and text(d))
def offline_pair(d: Draft) -> None:
    key = d.names.specs_key
    if d.specs():
        change = pick(d, "off", "gone", "null")
        if change == "off":
            d.dataset["enable_offline_packing"] = False
        elif change == "gone":
            d.dataset.pop("enable_offline_packing", None)
        else:
            d.dataset[key] = None
    else:
        d.dataset["enable_offline_packing"] = True
        d.set_mbs(1)


@violation(in_batch)
def in_batch_mbs(d: Draft) -> None:
    d.set_mbs(1)


@violation(lambda d: d.names.minor > 3 or d.data_kind != "energon")
def pack_in_batch_anyway(d: Draft) -> None:
    if text(d) or d.data_kind == "pretrain":
        d.dataset[d.names.in_batch_key] = True  # a key this class does not have
    else:
        d.dataset[d.names.in_batch_key] = True
        d.set_mbs(pick(d, 1, 2))


@violation(lambda d: d.data_kind == "energon")
def energon_mbs(d: Draft) -> None:
    d.dataset["micro_batch_size"] = pick(d, d.mbs + 1, 1, 2)
    if d.rng.random() < 0.3:
        d.dataset["do_validation"] = pick(d, True, False) if d.names.later else True


@violation(lambda d: d.names.has_validation)
def eval_sizes(d: Draft) -> None:
    d.section("validation").update(
        pick(
            d,
            {"eval_micro_batch_size": pick(d, 1, 2, 4)},
            {"eval_global_batch_size": pick(d, 1, 3, 5, 8, 32, d.gbs * 2)},
            {"eval_micro_batch_size": pick(d, 1, 2), "eval_global_batch_size": pick(d, 6, d.dp * 2, d.dp * 3)},
        )
    )


@violation()
def batch_size(d: Draft) -> None:
    d.section("train").update(
        pick(d, {"micro_batch_size": pick(d, 0, -1, 3)}, {"global_batch_size": pick(d, 0, -8, 1, 3, d.gbs + 1, d.dp)})
    )
    if d.data_kind == "energon" and d.rng.random() < 0.6:
        d.dataset["micro_batch_size"] = d.section("train").get("micro_batch_size")


@violation(energon)
def energon_counts(d: Draft) -> None:
    key = pick(
        d,
        "num_workers",
        "num_val_workers",
        "shuffle_buffer_size",
        "max_samples_per_sequence",
        "packing_buffer_size",
        "micro_batch_size",
    )
    d.dataset[key] = pick(d, 0, -1, 1, 100)


@violation(energon)
def energon_rest(d: Draft) -> None:
    change = pick(d, "path", "test", "kwargs")
    if change == "path":
        d.dataset["path"] = pick(d, "", "  ", None)
    elif change == "test":
        d.dataset["do_test"] = pick(d, True, True, False)
    else:
        key = pick(
            d,
            "batch_size",
            "max_samples_per_sequence",
            "packing_buffer_size",
            "shuffle_buffer_size",
            "split_part",
            "task_encoder",
            "worker_config",
            "handler",
        )
        d.dataset["dataset_kwargs"] = {key: pick(d, 4, None, "x")}


@violation()
def train_mode(d: Draft) -> None:
    train = d.section("train")
    change = pick(d, "none", "both", "zero")
    if change == "none":
        train.pop("train_iters", None)
        train.pop("train_samples", None)
    elif change == "both":
        train.update(train_iters=100, train_samples=pick(d, 100, 0))
    else:
        train.update(train_iters=None, train_samples=pick(d, 0, -5))


@violation(later)
def num_epochs(d: Draft) -> None:
    train = d.section("train")
    if d.rng.random() < 0.7:
        train["train_iters"] = None
    train["num_epochs"] = pick(d, 1, 2, 0.5, 0, -1)
    if text(d) and d.rng.random() < 0.4:
        d.dataset["dataloader_type"] = pick(d, "batch", "single", "cyclic")
    if d.rng.random() < 0.15:
        train["global_batch_size"] = None


@violation()
def schedule(d: Draft) -> None:
    samples = d.section("train").get("train_samples") is not None
    choices: list[dict[str, Any]] = [
        {"lr_decay_iters": pick(d, 0, -1, 1, 5)},
        {"lr_warmup_iters": pick(d, 5000, 7)},
        {"lr_warmup_fraction": pick(d, 0.1, 0.0, 1.0)},
        {"lr_decay_samples": pick(d, 1000, 0)},
        {"lr_warmup_samples": pick(d, 100, 0)},
        {"start_weight_decay": 0.1, "end_weight_decay": pick(d, 0.1, 0.2)},
        {"lr_decay_style": pick(d, "WSD", "inverse-square-root", "stepwise")},
    ]
    if d.names.later:
        choices += [{"max_steps": pick(d, 1, 10, 5000)}] * (3 if samples else 2)
    d.section("scheduler").update(pick(d, *choices))
