"""Settings as scripts around generate() spell them.

Source: transformers, utils/quantization_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.serving.inference import Inference

_GENERATE: Mapping[str, object] = {
    Inference.quantization: {
        "nf4": 'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")',
        "int8": "BitsAndBytesConfig(load_in_8bit=True)",
    },
}
SPELLING: Mapping[str, Mapping[str, object]] = {"transformers": _GENERATE}
"""By dialect and path: a text with the value in it, or a text for each value."""
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
