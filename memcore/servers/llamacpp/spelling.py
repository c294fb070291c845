"""Settings as llama.cpp spells them.

Source: llama.cpp, common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.messages import Message
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.serving.inference import Inference

_LLAMA_CPP: Mapping[str, object] = {
    Inference.max_model_len: "-c {} for each of the sequences (-np)",
    Inference.quantization: {
        name: Message("a GGUF file in {}", name.upper())
        for name in ("q8_0", "q4_k_m", "q3_k_m", "iq3_xxs", "q2_k", "iq2_m", "iq2_xxs")
    },
    Inference.draft_model: {None: "no -md"},
    LlamaCppSettings.flash_attn: {True: "-fa on"},
    LlamaCppSettings.cache_type_k: "-ctk {}",
    LlamaCppSettings.cache_type_v: "-ctv {}",
    LlamaCppSettings.n_ubatch: "-ub {}",
}
SPELLING: Mapping[str, Mapping[str, object]] = {"llama.cpp": _LLAMA_CPP}
"""By dialect and path: a text with the value in it, or a text for each value."""
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
