"""The arguments and calls of scripts around generate().

Source: transformers, utils/quantization_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.serving.inference import Inference

_GENERATE_NAMES: Mapping[str, str] = {
    EngineSettings.expandable_segments: "PYTORCH_CUDA_ALLOC_CONF",
    "model": "from_pretrained()",
    EngineSettings.type: "generate()",
    EngineSettings.version: "pip install transformers==",
    Inference.batch_size: "input_ids.shape[0]",
    Inference.prompt_length: "input_ids.shape[1]",
    Inference.output_length: "max_new_tokens",
    Inference.max_model_len: "max_length",
    Inference.weight_dtype: "from_pretrained(dtype=)",
    Inference.quantization: "quantization_config",
    Inference.kv_cache_dtype: "cache_config",
    Inference.use_cache: "use_cache",
    Inference.images_per_sequence: "pixel_values",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"transformers": _GENERATE_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
