"""Settings as vLLM spells them.

Source: vllm, engine/arg_utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.inference import Inference
from memcore.serving.settings import ServerSettings

_VLLM: Mapping[str, object] = {
    Inference.max_model_len: "--max-model-len {}",
    Inference.max_num_seqs: "--max-num-seqs {}",
    Inference.kv_cache_dtype: "--kv-cache-dtype {}",
    Inference.quantization: {"fp8": "--quantization fp8", "awq": "an AWQ checkpoint of the model"},
    Inference.draft_model: {None: "no --speculative-config"},
    Parallelism.tensor_parallel_size: "--tensor-parallel-size {}",
    VllmSettings.enforce_eager: {True: "--enforce-eager"},
    VllmSettings.gpu_memory_utilization: "--gpu-memory-utilization {}",
    VllmSettings.max_num_batched_tokens: "--max-num-batched-tokens {}",
}
SPELLING: Mapping[str, Mapping[str, object]] = {"vllm": _VLLM}
"""By dialect and path: a text with the value in it, or a text for each value."""
_VLLM_NAMES: Mapping[str, str] = {
    EngineSettings.expandable_segments: "PYTORCH_CUDA_ALLOC_CONF",
    "model": "--model",
    EngineSettings.type: "vllm serve",
    EngineSettings.version: "pip install vllm==",
    Inference.draft_model: "--speculative-config",
    Inference.speculative_method: "--speculative-config",
    Inference.num_speculative_tokens: "--speculative-config",
    Inference.images_per_sequence: "--limit-mm-per-prompt",
    VllmSettings.videos_per_sequence: "--limit-mm-per-prompt",
    VllmSettings.max_pixels: "--mm-processor-kwargs",
    VllmSettings.compile_cache: "VLLM_DISABLE_COMPILE_CACHE",
    VllmSettings.flashinfer_sampler: "VLLM_USE_FLASHINFER_SAMPLER",
    VllmSettings.use_v1: "VLLM_USE_V1",
    VllmSettings.use_v2_model_runner: "VLLM_USE_V2_MODEL_RUNNER",
    VllmSettings.estimate_cudagraphs: "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    ServerSettings.allow_longer: "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    ServerSettings.scaled_positions: "--hf-overrides",
    Inference.sleep_level: "sleep(level=)",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"vllm": _VLLM_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
