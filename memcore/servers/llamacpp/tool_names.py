"""The arguments and calls of llama.cpp.

Source: llama.cpp, common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.serving.inference import Inference

_LLAMA_CPP_NAMES: Mapping[str, str] = {
    "model": "--model",
    EngineSettings.type: "llama-server",
    Inference.quantization: "llama-quantize",
    Inference.kv_cache_dtype: "--cache-type-k, --cache-type-v",
    Hardware.num_gpus: "CUDA_VISIBLE_DEVICES",
    LlamaCppSettings.mla: "-mla",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"llama.cpp": _LLAMA_CPP_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
