"""Keys of the config format that this version understands but does not model: they are refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

_KEYS: Mapping[str, str] = {
    "training": "offload",
    "training.activation_checkpointing": "method num_layers modules",
    "parallelism": "ulysses_parallel_size virtual_pipeline_parallel_size pipeline_layout",
    "engine": "zero_stage offload_optimizer offload_param optimizer_in_bwd fp8_recipe "
    "enable_fsdp_float8_all_gather enable_async_tensor_parallel distributed_optimizer",
}

ENGINES = ("deepspeed", "megatron", "megatron-deepspeed", "megatron-fsdp", "nanotron")
"""Engines of the config format that are not modelled yet."""
PLANNED = frozenset(f"{path}.{key}".lstrip(".") for path, keys in _KEYS.items() for key in keys.split())
"""Their paths."""
