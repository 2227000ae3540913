"""A Hugging Face cache folder with the configurations that recipes ask for, so that they build without a network.

Nothing upstream is replaced: the files of `hub.tsv` are laid out as `huggingface_hub` caches a download, and the
process is told to stay offline.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("hub.tsv")
COLUMNS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "experts")
# What transformers calls the number of experts, per model type, and the keys a type needs beyond its defaults.
EXPERTS = {
    "deepseek_v2": "n_routed_experts",
    "deepseek_v3": "n_routed_experts",
    "glm4_moe": "n_routed_experts",
    "glm4v_moe": "n_routed_experts",
    "gpt_oss": "num_local_experts",
    "nemotron_h": "n_routed_experts",
}
OF_TYPE: dict[str, dict[str, Any]] = {
    "deepseek_v3": {"scoring_func": "sigmoid"},
    "glm4_moe": {"scoring_func": "sigmoid"},
    "glm4v_moe": {"use_qk_norm": False},
    "qwen3_next": {"full_attention_interval": 4},
}
OF_MODEL: dict[str, dict[str, Any]] = {
    "zai-org/GLM-4.5": {"num_nextn_predict_layers": 1},
    "zai-org/GLM-4.5-Air": {"num_nextn_predict_layers": 1},
    "deepseek-ai/DeepSeek-V3": {"num_nextn_predict_layers": 1},
    "moonshotai/Moonlight-16B-A3B": {"num_nextn_predict_layers": 0},
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "num_experts_per_tok": 6,
        "mamba_num_heads": 64,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "ssm_state_size": 128,
    },
}
PROCESSORS = (
    "AutoTokenizer",
    "AutoProcessor",
    "AutoImageProcessor",
    "Qwen2VLImageProcessor",
    "Qwen3VLProcessor",
    "Qwen2_5_VLProcessor",
)
REVISION = "0" * 40


def pinned_revisions() -> set[str]:
    """Revisions that the installed recipes name; every model answers to all of them."""
    spec = importlib.util.find_spec("megatron.bridge")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found: set[str] = set()
    for folder in folders:
        for path in Path(folder, "recipes").rglob("*.py"):
            found.update(re.findall(r"[\"']([0-9a-f]{40})[\"']", path.read_text()))
    return found


def configurations() -> dict[str, dict[str, Any]]:
    """Model name -> content of its config.json."""
    found: dict[str, dict[str, Any]] = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, kind, architecture, nested, *shape = line.split("\t")
        values: dict[str, Any] = {key: int(value) for key, value in zip(COLUMNS, shape, strict=True) if value != "-"}
        if "experts" in values:
            values[EXPERTS.get(kind, "num_experts")] = values.pop("experts")
        values.update(OF_TYPE.get(kind, {}) | OF_MODEL.get(name, {}))
        found[name] = {"model_type": kind, "architectures": [architecture]}
        found[name].update({nested: values} if nested != "-" else values)
    return found


def write(cache: Path) -> None:
    """Fill `cache` and point this process at it; call before transformers is imported."""
    revisions = {REVISION, *pinned_revisions()}
    for name, content in configurations().items():
        model = cache / ("models--" + name.replace("/", "--"))
        for revision in revisions:
            snapshot = model / "snapshots" / revision
            snapshot.mkdir(parents=True, exist_ok=True)
            (snapshot / "config.json").write_text(json.dumps(content))
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / "main").write_text(REVISION)
    os.environ.update(HF_HUB_CACHE=str(cache), HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", MEGATRON_CONFIG_LOCK_DIR=str(cache))


def no_processors() -> None:
    """Tokenizers and image processors that some recipes build: an object without content. No verdict reads them."""
    import transformers  # type: ignore[import-not-found, unused-ignore]

    for name in PROCESSORS:
        cls = getattr(transformers, name, None)
        if cls is not None:
            cls.from_pretrained = lambda *args, **kwargs: _Processor()


class _Processor:
    vocab_size, pad_token_id, eos_token_id = 32000, 0, 1

    def __len__(self) -> int:
        return self.vocab_size

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
