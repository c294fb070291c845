"""Keys of the config format that this version understands but does not model: they are refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

_KEYS: Mapping[str, str] = {
    "": "inference",
    "training": "adapter quantization offload packed_sequences trainable",
    "training.optimizer": "state_dtype",
    "training.activation_checkpointing": "mode every method num_layers modules",
    "parallelism": "ulysses_parallel_size expert_parallel_size expert_tensor_parallel_size sequence_parallel "
    "loss_parallel pipeline_schedule virtual_pipeline_parallel_size pipeline_layout",
    "engine": "zero_stage offload_optimizer offload_param optimizer_in_bwd lm_head_chunk_size fp8_recipe "
    "enable_fsdp_float8_all_gather enable_async_tensor_parallel moe_token_dispatcher pipeline_runtime "
    "prepare_model_for_kbit_training distributed_optimizer gpu_memory_utilization max_num_seqs",
}

PLANNED = frozenset(f"{path}.{key}".lstrip(".") for path, keys in _KEYS.items() for key in keys.split())
"""Their paths."""
