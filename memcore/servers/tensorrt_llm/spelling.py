"""Settings as TensorRT-LLM spells them.

Source: tensorrt_llm, commands/serve.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.servers.tensorrt_llm.settings import TensorRtSettings
from memcore.serving.inference import Inference

_TENSORRT: Mapping[str, object] = {
    Inference.max_model_len: "--max_seq_len {}",
    Inference.max_num_seqs: "--max_batch_size {}",
    Inference.kv_cache_dtype: {"fp8": "kv_cache_config: dtype: fp8"},
    Inference.quantization: {"fp8": "an FP8 checkpoint of the model", "awq": "an AWQ checkpoint of the model"},
    Inference.draft_model: {None: "no speculative_config"},
    Parallelism.tensor_parallel_size: "--tp_size {}",
    TensorRtSettings.free_gpu_memory_fraction: "--kv_cache_free_gpu_memory_fraction {}",
    TensorRtSettings.max_num_tokens: "--max_num_tokens {}",
}
SPELLING: Mapping[str, Mapping[str, object]] = {"tensorrt-llm": _TENSORRT}
"""By dialect and path: a text with the value in it, or a text for each value."""
_TENSORRT_NAMES: Mapping[str, str] = {
    "model": "trtllm-serve",
    EngineSettings.type: "trtllm-serve",
    EngineSettings.version: "pip install tensorrt-llm==",
    Inference.kv_cache_dtype: "kv_cache_config.dtype",
    Inference.block_size: "kv_cache_config.tokens_per_block",
    Hardware.gpus_per_node: "--gpus_per_node",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"tensorrt-llm": _TENSORRT_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
