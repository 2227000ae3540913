"""Which names occur as a field of a section in any release, without reading a schema.

The names lie in `data/field-names.txt`, one section a line (`tools/field_names.py` writes them, a test compares them with the
schemas). They answer one question: do the keys of a file show that it is Megatron-Bridge's? Names that many programs use
(`lr`, `hidden_size`) show nothing, so they are told apart from those that only a Megatron program has.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

_PATH: Final = os.path.join(os.path.dirname(__file__), "data", "field-names.txt")

#: Names of three words and more that other training programs use as well.
_COMMON: Final = frozenset(
    "num_attention_heads max_position_embeddings trust_remote_code chat_template_path hf_model_path max_train_samples "
    "pad_token_id bos_token_id eos_token_id image_token_id mask_token_id video_token_id image_token_index num_train_samples "
    "train_data_path test_data_path valid_data_path wandb_exp_name wandb_save_dir lr_warmup_steps lr_decay_steps "
    "lr_warmup_fraction mlflow_tracking_uri mlflow_run_name moe_intermediate_size kv_lora_rank q_lora_rank "
    "spatial_merge_size temporal_patch_size pretrained_model_name pad_to_max_length pad_to_multiple_of freeze_vision_model "
    "freeze_language_model num_val_workers min_loss_scale initial_loss_scale loss_scale_window rope_scaling_factor "
    "ffn_hidden_size shuffle_buffer_size pad_vocab_size record_memory_history enable_cuda_graph empty_cuda_cache "
    "qk_head_dim v_head_dim max_num_frames use_distributed_optimizer hf_tokenizer_path "
    "log_params_norm out_hidden_size is_vision_language report_time_interval max_iterations vocab_extra_ids "
    "custom_manager_class num_joint_layers max_pixels min_pixels axes_dims_rope vec_in_dim "
    "prompt_seq_len vae_scale_factor".split()
)
#: Names of one and two words that only Megatron programs use.
_TELLING: Final = frozenset(
    "seq_length sequence_parallel attention_backend pipeline_dtype recompute_granularity recompute_method recompute_modules "
    "kv_channels params_dtype transformer_impl cpu_offloading mtp_enabled mtp_standalone fp8_recipe fp8_margin fp8_interval "
    "fp8_wgrad fp8_param fp4_recipe fp4_param offload_modules flash_decode deterministic_mode qk_layernorm rotary_interleaved "
    "train_iters train_samples exit_interval manual_gc eval_iters num_epochs dataset_root dataset_kwargs do_validation "
    "memmap_workers data_sharding random_seed clip_grad decoupled_lr nccl_ub ckpt_format ckpt_step async_save async_strategy "
    "load_optim load_rng save_optim save_rng log_throughput log_energy lazy_init use_sharp legacy_tokenizer "
    "nvtx_ranges profile_ranks canonical_mapping exclude_modules rerun_mode skip_train autocast_enabled "
    "dataset_name hf_dataset maker_name maker_kwargs preprocessing full_validation".split()
)
#: Fields of packing specs, which stand one level below the dataset.
IN_SPECS: Final = ("packed_sequence_size", "pad_seq_to_mult", "packed_train_data_path", "packed_val_data_path", "pad_cu_seqlens")


@cache
def _by_section() -> dict[str, frozenset[str]]:
    with open(_PATH, encoding="ascii") as file:
        lines = (line.rstrip("\n").split("\t", 1) for line in file)
        return {section: frozenset(names.split()) for section, names in lines}


def names_in(section: str) -> frozenset[str]:
    """The fields that a section has in any release, on any of its classes; none for a name that is no section."""
    return _by_section().get(section, frozenset())


def is_telling(name: str) -> bool:
    """Whether a field's name shows by itself that a file is meant for a Megatron program."""
    return name in _TELLING or (name.count("_") >= 2 and name not in _COMMON)


def belongs_below(name: str) -> bool:
    """Whether a key at the top of a file is a telling field of some section, or of the packing specs."""
    return name in IN_SPECS or (is_telling(name) and any(name in names for names in _by_section().values()))
