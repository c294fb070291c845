"""Files next to a config.json that say how its checkpoint is quantized, where config.json itself may not say it.

Sources: vllm, model_executor/layers/quantization/modelopt.py, gptq.py and awq.py (`get_config_filenames`,
`from_config`), and model_loader/weight_utils.py (`get_quant_config`): config.json's own `quantization_config` counts
first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memcore.errors import MemcoreError
from memcore.formats.readers import parsed

NAMES = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""What ModelOpt, AutoGPTQ and AutoAWQ call them."""
_TOLD_BY = ('"quant_algo"', '"desc_act"', '"w_bit"')
"""Keys of which one is in every such file."""


def quantization_of(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the file as config.json has it under `quantization_config`; None for another file.

    >>> quantization_of({"bits": 4, "group_size": 128, "desc_act": False})["quant_method"]
    'gptq'
    >>> quantization_of({"model_type": "gpt2"}) is None
    True
    """
    if "model_type" in found or "model" in found:
        return None
    inner = found.get("quantization")
    if isinstance(inner, Mapping) and "quant_algo" in inner:
        return {"quant_method": "modelopt", **found}
    if {"w_bit", "q_group_size"} <= found.keys():
        return {"quant_method": "awq", **found}
    return {"quant_method": "gptq", **found} if {"bits", "group_size", "desc_act"} <= found.keys() else None


def quantization_in(text: str) -> Mapping[str, Any] | None:
    """Return what a text says if it is such a file; None for another text."""
    found = _object(text) if any(key in text for key in _TOLD_BY) else {}
    return quantization_of(found) if found else None


def with_quantization(text: str, said: Mapping[str, Any]) -> str | None:
    """Return a config.json with the quantization that the file next to it says; None for another text.

    >>> with_quantization('{"model_type": "gpt2"}', {"quant_method": "awq"})
    '{"quantization_config": {"quant_method": "awq"}, "model_type": "gpt2"}'
    """
    found = _object(text) if '"model_type"' in text else {}
    if "model_type" not in found or "model" in found:
        return None
    return json.dumps({"quantization_config": said, **found})


def _object(text: str) -> Mapping[str, Any]:
    """Return the object that a text is; empty for anything else."""
    try:
        return parsed(text, "the file") if text.lstrip().startswith("{") else {}
    except MemcoreError:
        return {}
