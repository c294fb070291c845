"""The script that generates with a model of transformers.

Sources: transformers 5.23, pipelines/__init__.py (`pipeline`), pipelines/base.py (`batch_size`),
utils/quantization_config.py (`BitsAndBytesConfig`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.settings import Config
from memcore.formats.code import Code, as_call

_IN_BITS: Mapping[str, Mapping[str, Any]] = {
    "int8": {"load_in_8bit": True},
    "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "nf4-double": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
}
"""Arguments of transformers' `BitsAndBytesConfig`."""
_IMPORTS = "from transformers import pipeline"
_IMPORTS_BITS = "from transformers import BitsAndBytesConfig, pipeline"
_TEXT = "Why is the sky blue?"
_UNNAMED = "MODEL"
"""What stands for a model that has no name on the hub."""
_CALLED = ("max_new_tokens", "max_length", "batch_size", "use_cache")
"""Keys that the call is told, not the pipeline."""


def script_of(_config: Config, keys: Mapping[str, Any]) -> str:
    """Return a script: a pipeline that loads the model on all GPUs, and a call with texts."""
    dtype, bits = keys.get("dtype"), _IN_BITS.get(str(keys.get("quantization")))
    loads = {
        "task": "text-generation",
        "model": keys.get("model", _UNNAMED),
        "device_map": "auto",
        "dtype": Code(f"torch.{dtype}") if dtype else "auto",
    }
    if bits is not None:
        loads["model_kwargs"] = Code(f"{{'quantization_config': {as_call('BitsAndBytesConfig', bits, 1)}}}")
    texts = Code(f"{[_TEXT]} * {keys['batch_size']}" if "batch_size" in keys else [_TEXT])
    told = {"text_inputs": texts, **{name: keys[name] for name in _CALLED if name in keys}}
    imports = ["import torch"] if dtype else []
    calls = f"generator = {as_call('pipeline', loads)}", f"print({as_call('generator', told)})"
    return "\n".join(["", *imports, _IMPORTS if bits is None else _IMPORTS_BITS, "", *calls, ""])
