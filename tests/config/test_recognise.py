"""Files of other programs are named; files of Megatron-Bridge are taken, whatever stands beside their sections."""

from __future__ import annotations

import pytest

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.config.recognise import Recognition, looks_like
from mbpack.engine.doctor import Request, judge

SECTIONS = {
    *(
        "checkpoint",
        "comm_overlap",
        "dataset",
        "ddp",
        "dist",
        "logger",
        "mixed_precision",
        "model",
        "optimizer",
        "peft",
    ),
    *("profiling", "rng", "scheduler", "tokenizer", "train", "validation"),
}


def recognise(text: str | bytes) -> Recognition:
    return looks_like(parse(text), SECTIONS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("_target_: megatron.bridge.training.config.ConfigContainer\nmodel: {}\n", "complete"),
        ("_target_: my.package.ConfigContainer\n", "complete"),
        ("model:\n  seq_length: 4096\n", "override"),
        ("dataset:\n", "empty"),
        ("train: ???\n", "empty"),
        ("train: ${train_of_run}\n", "empty"),
        ("optimizer: {lr: 1.0e-5}\nscheduler: {}\n", "override"),
        ("run: {gpus: 8}\nrecipe: {_target_: a.b}\ndefaults: [x]\nmodel: {seq_length: 1}\n", "override"),
        ("policy: {sequence_packing: {}}\nddp: {average_in_collective: false}\n", "override"),
        ("modules: {post_trainer: {overrides: {}}}\nvalidation: {eval_iters: 1}\n", "override"),
        ("trainer: {devices: 8}\ndata: {}\nmixed_precision: bf16_mixed\nrng: {seed: 1}\n", "override"),
        ("", "empty"),
        ("# nothing yet\n", "empty"),
        ("{}\n", "empty"),
    ],
)
def test_configurations_of_megatron_bridge(text: str, kind: str) -> None:
    found = recognise(text)
    assert found.kind == kind
    assert found.is_bridge
    assert found.message == ""


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("policy: {model_name: x, sequence_packing: {enabled: true}}\nlogger: {}\ncluster: {}\n", "NeMo-RL", "policy"),
        ("grpo: {num_prompts_per_step: 32}\npolicy: {}\nlogger: {}\n", "NeMo-RL", "grpo"),
        ("exp_name: x\nmodules:\n  post_trainer:\n    overrides: {micro_batch_size: 1}\n", "Primus", "run_config.yaml"),
        ("modules: {pre_trainer: {config: x.yaml}}\n", "Primus", "overrides"),
        ("base_model: x\nsample_packing: true\nmicro_batch_size: 2\noptimizer: adamw\n", "axolotl", "base_model"),
        (
            "model_name_or_path: x\nstage: sft\nfinetuning_type: lora\ndataset: a,b\n",
            "LLaMA-Factory",
            "finetuning_type",
        ),
        ("model: {_component_: torchtune.models.x}\ndataset: {packed: true}\n", "torchtune", "_component_"),
        ("trainer: {devices: 8}\nexp_manager: {}\nmodel: {data: {}}\n", "NeMo", "exp_manager"),
        ("trainer: {devices: 8}\noptim: {}\nmodel: {}\npeft: {}\n", "NeMo", "optim"),
        ("actor_rollout_ref: {}\ntrainer: {}\n", "verl", "actor_rollout_ref"),
        ('{"zero_optimization": {"stage": 2}, "optimizer": {"type": "Adam"}, "scheduler": {}}', "DeepSpeed", "zero"),
        ("output_dir: x\nper_device_train_batch_size: 1\nlearning_rate: 1.0e-5\n", "Hugging Face", "micro_batch_size"),
        ("compute_environment: LOCAL_MACHINE\nnum_processes: 8\n", "Accelerate", "Megatron-Bridge"),
        ('{"architectures": ["X"], "hidden_size": 8, "model_type": "x"}', "config.json", "Megatron-Bridge"),
        ("apiVersion: v1\nkind: Pod\n", "Kubernetes", "inside"),
        ("name: x\non: push\njobs: {test: {}}\n", "GitHub", "Megatron-Bridge"),
        ("services: {web: {}}\nversion: 3\n", "Compose", "Megatron-Bridge"),
        ("name: x\ndependencies: [a]\nchannels: [b]\n", "conda", "Megatron-Bridge"),
        ('{"schema_version": 1, "mbpack": "0.1.0", "files": []}', "report of mbpack", "itself"),
        ("bridge: '0.6'\nworkload: sft\ngpus: 8\n", "mbpack init", "--answers"),
        ("#!/bin/bash\n#SBATCH --nodes=2\n", "script", ".sh"),
        ("#!/bin/bash\necho x\nsrun python train.py --a b: c\n", "script", ".sh"),
        ("- a\n- b\n", "no mapping", "list"),
        ("word\n", "no mapping", "single value"),
        ('{"input": "a"}\n{"input": "b"}\n', "JSON Lines", "dataset_root"),
        (b"\x93NUMPY\x01\x00v\x00", "packed data", "inspect"),
        (b"PAR1\x15\x04\x15\xff", "packed data", "inspect"),
    ],
)
def test_files_of_other_programs(text: str | bytes, name: str, said: str) -> None:
    found = recognise(text)
    assert found.kind == "other"
    assert name in found.name
    assert said in found.message
    assert "\n" not in found.message
    assert not found.is_bridge


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: {c: 2}\n", "`a`, `b`"),
        ("dataset.seq_length: 4096\n", "nested sections"),
        ("micro_batch_size: 1\nfoo: 2\n", "below `train`"),
        ("recipe: {_target_: a.b, packed_sequence: true}\n", "`recipe`"),
        ("1: a\n", "`1`"),
        ("model: 5\n", "none of its keys"),
        ("dataset: my_dataset\nmodel: resnet\n", "`dataset`, `model`"),
        ("replicaCount: 1\nimage: x\ndataset: {path: x}\n", "only `dataset.path`"),
        ("model: {type: FasterRCNN}\noptimizer: {type: SGD, lr: 0.01}\n", "only `optimizer.lr`"),
        ("base: {train: {}}\ntrain: ${base.train}\n", "`base`"),
    ],
)
def test_files_without_any_known_section(text: str, said: str) -> None:
    found = recognise(text)
    assert found.kind == "unknown"
    assert said in found.message
    assert found.span is not None


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("model: {seq_length: 4096}\n", True),
        ("train: {global_batchsize: 8}\n", True),
        ("train: {seq_length: 4096}\n", True),
        ("model: {_target_: megatron.bridge.models.x.Y}\n", True),
        ("mixed_precision: bf16_mixed\n", True),
        ("model: {num_layers: 2}\n", False),
        ("optimizer: {lr: 1.0e-5, weight_decay: 0.1}\n", False),
        ("train:\n", False),
    ],
)
def test_whether_its_own_keys_show_whose_it_is(text: str, marked: bool) -> None:
    found = recognise(text)
    assert (found.is_bridge, found.marked) == (True, marked)


def test_every_key_without_its_section_is_named() -> None:
    found = recognise("seq_length: 8192\nmicro_batch_size: 1\npad_seq_to_mult: 8\n")
    assert "`seq_length` below `model` and `dataset`" in found.message
    assert "`micro_batch_size` below `train`" in found.message
    assert "`pad_seq_to_mult` below `dataset.offline_packing_specs`" in found.message


def test_the_deciding_key_has_a_place() -> None:
    found = recognise("# note\nbase_model: x\ndatasets: []\n")
    assert found.span is not None
    assert (found.span.line, found.span.column) == (2, 1)


@pytest.mark.parametrize("text", ["a: [\n", b"a: \xff\n", "a: 1\n---\nb: 2\n"])
def test_unreadable_files(text: str | bytes) -> None:
    assert recognise(text).kind == "unreadable"


CARD = "title: cuda_graphs\nsummary: graphs\nvalidation_status: {config: [verified]}\nevidence: [a]\nknown_limitations: [b]\n"
MODEL_CARD = "model: {hf_id: a/b, architecture: x}\nchecks: {a: 1}\nversion: 1\n"


@pytest.mark.parametrize("text", [CARD, MODEL_CARD])
def test_a_release_makes_no_configuration_of_a_file_that_no_release_knows_anything_of(text: str) -> None:
    def rules(flags: Given) -> list[str]:
        return [finding.rule.code for finding in judge(Request([parse(text)], flags)).findings]

    assert rules(Given("0.7")) == ["CFG128"]
    assert rules(Given()) == ["CFG128"]
    assert "CFG128" not in rules(Given("0.6", "llama3_8b_sft_config"))


@pytest.mark.parametrize("text", ["train: {foo: 1}", "foo: 1\nbar: 2\n", "tensor_parallel: 2\na: 1\nb: 1\nseq_length: 4\n"])
def test_a_few_unknown_keys_of_a_named_release_are_judged(text: str) -> None:
    codes = [finding.rule.code for finding in judge(Request([parse(text)], Given("0.7"))).findings]
    assert "CFG102" in codes
