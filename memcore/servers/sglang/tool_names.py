"""The arguments and calls of SGLang.

Source: sglang, srt/server_args.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.serving.inference import Inference
from memcore.serving.settings import ServerSettings

_SGLANG_NAMES: Mapping[str, str] = {
    EngineSettings.expandable_segments: "PYTORCH_CUDA_ALLOC_CONF",
    "model": "--model-path",
    EngineSettings.type: "sglang.launch_server",
    EngineSettings.version: "pip install sglang==",
    ServerSettings.enable_expert_parallel: "--ep-size",
    Inference.draft_model: "--speculative-draft-model-path",
    Inference.speculative_method: "--speculative-algorithm",
    Inference.num_speculative_tokens: "--speculative-num-draft-tokens",
    Hardware.num_gpus: "--tp-size",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"sglang": _SGLANG_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
