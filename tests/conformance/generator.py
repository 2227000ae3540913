"""Seeded generator of complete configurations: a consistent one first, then odd spellings and violations.

`complete_rows` yields rows {"id", "release", "gpus", "config", "aim"}; `aim` names what was done to the consistent
configuration (empty: nothing), so that a run can say what it covered. Whether a row is accepted is for the real packages to say.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from . import changes
from .draft import Draft
from .names import NAMES, Names

SHAPES = [(8, 128, 8), (12, 1536, 24), (16, 1024, 8), (24, 512, 8), (32, 2048, 16), (32, 4096, 32), (48, 5120, 40), (6, 192, 6)]
PRECISIONS = (
    "bf16_mixed bf16-mixed fp16_mixed bf16_with_fp8_current_scaling_mixed bf16_with_fp8_delayed_scaling_mixed "
    "bf16_with_fp8_subchannel_scaling_mixed bf16_with_mxfp8_mixed bf16-with-nvfp4-mixed"
).split()


def complete_rows(release: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    names = NAMES[release]
    for number in range(count):
        rng = random.Random(f"{release}/{seed}/{number}")
        draft = consistent(rng, names)
        for _ in range(rng.choice((0, 0, 0, 1, 1))):
            changes.apply(draft, changes.ODDITIES)
        if rng.random() < 0.6:
            for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
                changes.apply(draft, changes.VIOLATIONS)
        yield {
            "id": f"{release}-s{seed}-{number:05d}",
            "release": release,
            "gpus": draft.gpus,
            "config": draft.config,
            "aim": draft.aim,
        }


def consistent(rng: random.Random, names: Names) -> Draft:
    """A configuration that, as far as this generator knows, the release accepts."""
    draft = Draft(rng, names)
    _model(draft)
    _topology(draft)
    _train(draft)
    _dataset(draft)
    _finishing(draft)
    return draft


def _model(draft: Draft) -> None:
    rng, names = draft.rng, draft.names
    if names.sized_models and rng.random() < 0.06:
        target = rng.choice(sorted(names.sized_models))
        draft.layers, draft.heads, draft.groups, draft.experts = names.sized_models[target]
        draft.start_model(target, nested=False)
        return
    kind = rng.choice(["gpt"] * 10 + [k for k in names.models if k != "gpt"] * 2)
    draft.layers, hidden, draft.heads = rng.choice(SHAPES)
    draft.start_model(names.models[kind], nested=kind == "config")
    draft.kind = kind
    draft.model.update(num_layers=draft.layers, hidden_size=hidden, num_attention_heads=draft.heads)
    if rng.random() < 0.35:
        draft.groups = rng.choice([g for g in (1, 2, 4, 8, draft.heads) if draft.heads % g == 0])
        draft.model["num_query_groups"] = draft.groups
    if kind == "hybrid":
        draft.model[names.hybrid_pattern] = "M-M*" * (draft.layers // 4) + "M-M*"[: draft.layers % 4]
    if kind in ("gpt", "config", "mla", "qwen3vl") and rng.random() < 0.2:
        draft.experts = rng.choice((4, 8, 16))
        draft.model.update(
            num_moe_experts=draft.experts,
            moe_router_topk=2,
            moe_ffn_hidden_size=64,
            add_bias_linear=False,
            gated_linear_unit=True,
            moe_token_dispatcher_type=rng.choice(("alltoall", "alltoall", "allgather", "flex")),
        )
        if draft.model["moe_token_dispatcher_type"] == "flex":
            draft.model["moe_flex_dispatcher_backend"] = rng.choice(("deepep", "hybridep"))


def _topology(draft: Draft) -> None:
    rng = draft.rng
    groups = draft.groups or draft.heads
    draft.tp = rng.choice([t for t in (1, 1, 2, 2, 4, 8) if draft.heads % t == 0 and (groups % t == 0 or t % groups == 0)])
    draft.pp = rng.choice((1, 1, 1, 2, 2, 4))
    draft.cp = rng.choice((1, 1, 1, 2, 2, 4, 8))
    draft.dp = rng.choice((1, 1, 2, 2, 4, 8, 3))
    draft.gpus = draft.tp * draft.pp * draft.cp * draft.dp
    model = draft.model
    model.update(tensor_model_parallel_size=draft.tp, context_parallel_size=draft.cp, pipeline_model_parallel_size=draft.pp)
    if draft.tp > 1 and (draft.experts or rng.random() < 0.6):
        model["sequence_parallel"] = True
    elif draft.names.minor > 3 and rng.random() < 0.05:
        model["sequence_parallel"] = True  # switched off again without tensor parallelism
    elif rng.random() < 0.05:
        model["sequence_parallel"] = False
    if draft.experts:
        model["expert_model_parallel_size"] = rng.choice((1, 2, 2, 4))
        if rng.random() < 0.3:
            model["expert_tensor_parallel_size"] = rng.choice((1, 2))
    if draft.pp > 1 and rng.random() < 0.4 and draft.layers % (draft.pp * 2) == 0:
        model["virtual_pipeline_model_parallel_size"] = rng.choice((1, 2))
    if rng.random() < 0.25:
        model["cp_comm_type"] = rng.choice(("p2p", "a2a", "all_gather", ["p2p"] * draft.layers))
    if draft.cp >= 4 and rng.random() < 0.2:
        model["cp_comm_type"] = "a2a+p2p"
        model["hierarchical_context_parallel_sizes"] = [2, draft.cp // 2]
    if draft.cp > 1 or rng.random() < 0.2:
        model["calculate_per_token_loss"] = True
        draft.section("ddp")["average_in_collective"] = False


def _train(draft: Draft) -> None:
    rng, train = draft.rng, draft.section("train")
    draft.mbs = rng.choice((1, 1, 2, 4))
    draft.gbs = draft.mbs * draft.dp * rng.choice((1, 2, 4, 8))
    train.update(global_batch_size=draft.gbs, micro_batch_size=draft.mbs, train_iters=rng.choice((10, 100, 1000)))
    scheduler = draft.section("scheduler")
    scheduler.update(lr_decay_style=rng.choice(("linear", "cosine", "WSD", "constant")), lr_warmup_iters=rng.choice((0, 0, 5)))
    if scheduler["lr_decay_style"] == "WSD":
        scheduler["lr_wsd_decay_iters"] = 5
    if rng.random() < 0.2:
        scheduler["lr_decay_iters"] = rng.choice((None, 100, 2000))
    if rng.random() < 0.1:
        train.pop("train_iters")
        train["train_samples"] = rng.choice((32, 1000))
        scheduler["lr_warmup_iters"] = 0
        scheduler.pop("lr_decay_iters", None)
        scheduler.pop("lr_wsd_decay_iters", None)
        scheduler["lr_decay_style"] = "cosine"
    if draft.names.has_validation and rng.random() < 0.4:
        draft.section("validation").update(eval_iters=rng.choice((0, 10, 32)), eval_interval=rng.choice((50, 500)))
    elif rng.random() < 0.15:
        train["eval_iters"] = rng.choice((0, 10))
    draft.section("optimizer")["lr"] = rng.choice((1e-4, 2e-5, 5e-6))
    if rng.random() < 0.3:
        draft.section("optimizer")["use_distributed_optimizer"] = rng.random() < 0.5
        draft.section("ddp").update(use_distributed_optimizer=True, overlap_grad_reduce=rng.random() < 0.5)


def _dataset(draft: Draft) -> None:
    rng, names = draft.rng, draft.names
    draft.multiple = 1
    for cp in (draft.cp,):
        draft.multiple = draft.collate_multiple(cp)
    draft.seq = rng.choice((512, 1024, 2048, 4096, 8192, 16384, 32768))
    if rng.random() < 0.15:
        draft.seq = draft.multiple * 2 * draft.cp * rng.choice((31, 50, 375))
    draft.outer["seq_length"] = draft.seq
    kinds = ["text"] * 6 + ["energon", "conversation", "mock_vlm", "hf_text", "pretrain"] * 2
    if "text_alias" in names.datasets:
        kinds.append("text_alias")
    draft.data_kind = kind = rng.choice(kinds)
    dataset = draft.start_dataset(names.datasets[kind])
    dataset["seq_length"] = draft.seq
    getattr(_Datasets, kind.removesuffix("_alias"))(draft, dataset)


class _Datasets:
    """The fields each kind of data set needs, and its way of packing."""

    @staticmethod
    def text(draft: Draft, dataset: dict[str, Any]) -> None:
        dataset["dataset_root"] = "/data/sft"
        _offline(draft, dataset)

    @staticmethod
    def hf_text(draft: Draft, dataset: dict[str, Any]) -> None:
        if draft.names.later:
            dataset["hf_dataset"] = {"_target_": "megatron.bridge.data.sources.hf.HFDatasetSourceConfig", "dataset_name": "squad"}
            dataset.update(hf_validation_proportion=0.1, do_test=False)
        else:
            function = "megatron.bridge.data.hf_processors.squad.process_squad_example"
            dataset.update(dataset_name="squad", process_example_fn={"_target_": function, "_call_": False})
        if draft.names.minor > 4 and "process_example_fn" in dataset:
            dataset["process_example_fn"] = None  # callables in a file are refused from 0.5 on
        _offline(draft, dataset)

    @staticmethod
    def pretrain(draft: Draft, dataset: dict[str, Any]) -> None:
        dataset.update(random_seed=1234, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False)
        if draft.rng.random() < 0.3:
            dataset["sequence_length"] = dataset.pop("seq_length")

    @staticmethod
    def conversation(draft: Draft, dataset: dict[str, Any]) -> None:
        if draft.names.later:
            dataset["source"] = {"_target_": "megatron.bridge.data.sources.hf.HFDatasetSourceConfig", "path_or_dataset": "json"}
            if draft.rng.random() < 0.5:
                dataset["hf_processor_path"] = "org/model"
            dataset.update(do_validation=False, do_test=False)
        else:
            dataset.update(hf_processor_path="org/model", maker_name="make_cord_v2_dataset")
        _in_batch(draft, dataset)

    @staticmethod
    def mock_vlm(draft: Draft, dataset: dict[str, Any]) -> None:
        dataset["hf_processor_path"] = "org/model"
        _in_batch(draft, dataset)

    @staticmethod
    def energon(draft: Draft, dataset: dict[str, Any]) -> None:
        dataset.update(path="/data/energon", micro_batch_size=draft.mbs, num_workers=2)
        if draft.names.later:
            encoder = draft.rng.choice(("HFEnergonTaskEncoderConfig", "QwenVLEnergonTaskEncoderConfig"))
            dataset["task_encoder"] = {
                "_target_": f"megatron.bridge.data.builders.energon.{encoder}",
                "hf_processor_path": "org/model",
            }
        else:
            dataset["global_batch_size"] = draft.gbs
        if draft.names.minor > 3:
            _in_batch(draft, dataset)


def _offline(draft: Draft, dataset: dict[str, Any]) -> None:
    rng, names = draft.rng, draft.names
    if rng.random() < 0.35:
        if rng.random() < 0.2:
            dataset[names.specs_key] = None
        return
    draft.packing = "offline"
    draft.set_mbs(1)
    specs: dict[str, Any] = {"_target_": names.specs_class, "packed_sequence_size": draft.seq}
    if rng.random() < 0.7:
        specs["pad_seq_to_mult"] = rng.choice((draft.multiple, draft.multiple * 2, 1, None))
    if rng.random() < 0.4:
        dataset["dataset_kwargs"] = {"pad_to_max_length": True}
        if rng.random() < 0.5:
            specs["pad_cu_seqlens"] = True
    if names.later:
        dataset["enable_offline_packing"] = True
    if names.minor > 3 and rng.random() < 0.2:
        specs["num_tokenizer_workers"] = rng.choice((-1, 1, 16))
    if names.later and rng.random() < 0.15:
        specs["max_single_sequence_length"] = rng.choice((1, draft.seq, draft.seq // 2))
    dataset[names.specs_key] = specs


def _in_batch(draft: Draft, dataset: dict[str, Any]) -> None:
    rng, names = draft.rng, draft.names
    if names.later:
        if rng.random() < 0.3:
            dataset["pad_to_max_length"] = rng.random() < 0.5
        if rng.random() < 0.2:
            dataset["pad_to_multiple_of"] = rng.choice((1, 8, 64, 96))
        if rng.random() < 0.15:
            dataset["in_batch_packing_pad_to_multiple_of"] = rng.choice((1, 64))
    if rng.random() < 0.45:
        if rng.random() < 0.2:
            dataset[names.in_batch_key] = False
        return
    draft.packing = "in_batch"
    dataset[names.in_batch_key] = True
    if names.later and rng.random() < 0.3:
        dataset["defer_in_batch_packing_to_step"] = True
    draft.set_mbs(rng.choice((2, 4)))


def _finishing(draft: Draft) -> None:
    rng = draft.rng
    if rng.random() < 0.3:
        draft.config["mixed_precision"] = rng.choice(PRECISIONS)
    if rng.random() < 0.15:
        kind = rng.choice(("lora.LoRA", "dora.DoRA", "canonical_lora.CanonicalLoRA"))
        draft.config["peft"] = {"_target_": f"megatron.bridge.peft.{kind}"}
        draft.section("checkpoint")["pretrained_checkpoint"] = "/checkpoints/base"
    if rng.random() < 0.2:
        draft.section("checkpoint").update(save="/data/out", save_interval=100)
    if rng.random() < 0.15:
        draft.config["comm_overlap"] = {
            "_target_": "megatron.bridge.training.comm_overlap.CommOverlapConfig",
            "tp_comm_overlap": draft.model.get("sequence_parallel") is True and rng.random() < 0.4,
        }
    if rng.random() < 0.12:
        draft.fsdp()
    if rng.random() < 0.2:
        _graphs(draft)
    elif rng.random() < 0.2:
        granularity = rng.choice(("full", "selective"))
        draft.model["recompute_granularity"] = granularity
        if granularity == "full":
            draft.model.update(recompute_method=rng.choice(("uniform", "block")), recompute_num_layers=rng.choice((1, 2)))
    if rng.random() < 0.05:
        draft.model["mtp_num_layers"] = 1


def _graphs(draft: Draft) -> None:
    rng, model, names = draft.rng, draft.model, draft.names
    model.update(use_te_rng_tracker=True)
    draft.section("rng")["te_rng_tracker"] = True
    key = "cuda_graph_modules" if names.minor > 4 and rng.random() < 0.6 else "cuda_graph_scope"
    if rng.random() < 0.3:  # the whole iteration
        if names.minor > 4 and rng.random() < 0.6:
            model["cuda_graph_impl"] = "full_iteration"
        else:
            model.update(cuda_graph_impl="local", cuda_graph_scope=["full_iteration"])
        draft.section("rerun_state_machine")["check_for_nan_in_loss"] = False
        attention = True
    else:
        model["cuda_graph_impl"] = "transformer_engine"
        scopes = (
            [["moe_router"], ["moe_router", "moe_preprocess"], ["attn"]]
            if draft.experts
            else [["mlp"], ["attn"], ["attn", "mlp"], []]
        )
        model[key] = rng.choice(scopes)
        if rng.random() < 0.15:
            model[key] = ",".join(model[key]) or model[key]
        attention = not model[key] or "attn" in model[key]
    if names.later and draft.packing == "offline":
        draft.dataset["dataset_kwargs"] = {"pad_to_max_length": True}
        if attention:
            draft.dataset[names.specs_key]["pad_cu_seqlens"] = True
