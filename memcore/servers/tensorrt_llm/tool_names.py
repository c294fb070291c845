"""The arguments and calls of TensorRT-LLM.

Source: tensorrt_llm, commands/serve.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.serving.inference import Inference

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
