"""Programs whose files are taken for Megatron-Bridge configurations most often, and what their files show at the top."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Format(Struct, frozen=True):
    """A kind of file. `marks`: of each group at least one key must stand at the top (dots lead inside)."""

    name: str
    marks: tuple[tuple[str, ...], ...]
    advice: str


ONLY_BRIDGE: Final = "mbpack checks Megatron-Bridge configurations only"

FORMATS: Final = (
    Format(
        "a NeMo-RL configuration",
        (("policy",), ("grpo", "dpo", "sft", "rm", "ppo", "distillation", "loss_fn", "policy.sequence_packing")),
        f"its packing is `policy.sequence_packing`, another mechanism; {ONLY_BRIDGE}",
    ),
    Format(
        "a Primus experiment",
        (("modules.pre_trainer", "modules.post_trainer", "modules.sft_trainer"),),
        "its keys below `overrides:` are arguments of a recipe; check the run_config.yaml that the run saves",
    ),
    Format(
        "an axolotl configuration",
        (("base_model",), ("sample_packing", "sequence_len", "micro_batch_size", "datasets", "adapter", "num_epochs")),
        f"axolotl packs in its own way; {ONLY_BRIDGE}",
    ),
    Format(
        "a LLaMA-Factory configuration",
        (("finetuning_type", "stage"), ("model_name_or_path", "template", "dataset", "cutoff_len")),
        f"LLaMA-Factory packs in its own way; {ONLY_BRIDGE}",
    ),
    Format("a verl configuration", (("actor_rollout_ref", "algorithm.adv_estimator"),), ONLY_BRIDGE),
    Format(
        "a NeMo configuration",
        (("trainer",), ("exp_manager", "data", "log", "resume", "optim", "model.data")),
        f"NeMo's `model`, `trainer` and `data` are not Megatron-Bridge's sections; {ONLY_BRIDGE}",
    ),
    Format("a Lightning configuration", (("seed_everything",), ("trainer", "model", "data", "fit")), ONLY_BRIDGE),
    Format(
        "a LitGPT configuration",
        (("checkpoint_dir", "out_dir", "model_name"), ("devices",), ("data", "train", "eval", "precision")),
        ONLY_BRIDGE,
    ),
    Format(
        "a DeepSpeed configuration",
        (("zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"),),
        ONLY_BRIDGE,
    ),
    Format("an Accelerate configuration", (("compute_environment", "distributed_type"), ("num_processes",)), ONLY_BRIDGE),
    Format(
        "a file of Hugging Face training arguments",
        (
            ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "output_dir"),
            ("learning_rate", "num_train_epochs", "max_steps", "model_name_or_path", "bf16", "fp16"),
        ),
        f"{ONLY_BRIDGE}; there, batch sizes are `train.micro_batch_size` and `train.global_batch_size`",
    ),
    Format("a model's config.json", (("architectures", "model_type"), ("hidden_size", "vocab_size")), ONLY_BRIDGE),
    Format("a Kubernetes manifest", (("apiVersion",), ("kind",)), "give the configuration or the launch script inside it"),
    Format("a Helm chart", (("apiVersion",), ("appVersion", "version", "dependencies")), ONLY_BRIDGE),
    Format("an OpenAPI description", (("openapi", "swagger"), ("info", "paths")), ONLY_BRIDGE),
    Format("a GitHub workflow", (("jobs",), ("True", "on", "name")), ONLY_BRIDGE),
    Format("a GitHub action", (("runs",), ("name", "inputs")), ONLY_BRIDGE),
    Format("a Compose file", (("services",), ("version", "volumes", "networks", "services")), ONLY_BRIDGE),
    Format("a conda environment", (("dependencies",), ("channels", "name")), ONLY_BRIDGE),
    Format("an MkDocs configuration", (("site_name",), ("nav", "theme", "plugins", "docs_dir")), ONLY_BRIDGE),
    Format("an MLflow project", (("entry_points",), ("name", "conda_env", "python_env")), ONLY_BRIDGE),
    Format("a pipeline description", (("stages", "workflows"),), ONLY_BRIDGE),
    Format("a pre-commit configuration", (("repos",),), ONLY_BRIDGE),
    Format("a report of mbpack", (("schema_version",), ("files", "candidates")), "give the configuration itself"),
    Format(
        "a file of answers for `mbpack init`",
        (("bridge",), ("workload", "modality", "packing", "family"), ("gpus", "tp", "seq_length", "data", "recipe")),
        "replay it with `mbpack init --answers FILE` and check what that writes",
    ),
)
