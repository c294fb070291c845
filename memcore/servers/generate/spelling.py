"""Settings as scripts around generate() spell them.

Source: transformers, utils/quantization_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.serving.inference import Inference

_GENERATE: Mapping[str, object] = {
    Inference.quantization: {
        "nf4": 'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")',
        "int8": "BitsAndBytesConfig(load_in_8bit=True)",
    },
}
SPELLING: Mapping[str, Mapping[str, object]] = {"transformers": _GENERATE}
"""By dialect and path: a text with the value in it, or a text for each value."""
