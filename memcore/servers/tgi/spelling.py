"""Settings as TGI spells them.

Source: text-generation-inference, launcher/src/main.rs.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.servers.tgi.settings import TgiSettings
from memcore.serving.inference import Inference

_TGI: Mapping[str, object] = {
    Inference.max_model_len: "--max-total-tokens {}",
    Inference.kv_cache_dtype: {"fp8": "--kv-cache-dtype fp8_e4m3fn"},
    Inference.quantization: {"fp8": "--quantize fp8", "awq": "an AWQ checkpoint of the model"},
    Parallelism.tensor_parallel_size: "--num-shard {}",
    TgiSettings.cuda_memory_fraction: "--cuda-memory-fraction {}",
    TgiSettings.max_batch_prefill_tokens: "--max-batch-prefill-tokens {}",
    TgiSettings.cuda_graph_max_batch: {0: "--cuda-graphs 0"},
}
SPELLING: Mapping[str, Mapping[str, object]] = {"tgi": _TGI}
"""By dialect and path: a text with the value in it, or a text for each value."""
_TGI_NAMES: Mapping[str, str] = {
    "model": "--model-id",
    EngineSettings.type: "text-generation-launcher",
    EngineSettings.version: "text-generation-inference:",
    Hardware.num_gpus: "--num-shard",
    TgiSettings.cuda_graph_max_batch: "--cuda-graphs",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"tgi": _TGI_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
