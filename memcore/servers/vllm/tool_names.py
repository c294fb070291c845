"""The arguments and calls of vLLM.

Source: vllm, engine/arg_utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.inference import Inference

_VLLM_NAMES: Mapping[str, str] = {
    EngineSettings.expandable_segments: "PYTORCH_CUDA_ALLOC_CONF",
    "model": "--model",
    EngineSettings.type: "vllm serve",
    EngineSettings.version: "pip install vllm==",
    Inference.draft_model: "--speculative-config",
    Inference.speculative_method: "--speculative-config",
    Inference.num_speculative_tokens: "--speculative-config",
    Inference.images_per_sequence: "--limit-mm-per-prompt",
    VllmSettings.compile_cache: "VLLM_DISABLE_COMPILE_CACHE",
    VllmSettings.flashinfer_sampler: "VLLM_USE_FLASHINFER_SAMPLER",
    Inference.sleep_level: "sleep(level=)",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"vllm": _VLLM_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
