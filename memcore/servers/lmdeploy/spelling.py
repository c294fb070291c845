"""Settings as LMDeploy spells them.

Source: lmdeploy, cli/utils.py and cli/serve.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.servers.lmdeploy.settings import LmdeploySettings
from memcore.serving.inference import Inference

_LMDEPLOY: Mapping[str, object] = {
    Inference.max_model_len: "--session-len {}",
    Inference.max_num_seqs: "--max-batch-size {}",
    Inference.kv_cache_dtype: {"int8": "--quant-policy 8", "int4": "--quant-policy 4", "fp8": "--quant-policy 16"},
    Inference.quantization: {"fp8": "an FP8 checkpoint of the model", "awq": "an AWQ checkpoint of the model"},
    Parallelism.tensor_parallel_size: "--tp {}",
    LmdeploySettings.cache_max_entry_count: "--cache-max-entry-count {}",
    LmdeploySettings.max_prefill_token_num: "--max-prefill-token-num {}",
}
SPELLING: Mapping[str, Mapping[str, object]] = {"lmdeploy": _LMDEPLOY}
"""By dialect and path: a text with the value in it, or a text for each value."""
_LMDEPLOY_NAMES: Mapping[str, str] = {
    "model": "lmdeploy serve api_server",
    EngineSettings.type: "lmdeploy serve api_server",
    EngineSettings.version: "pip install lmdeploy==",
    Hardware.num_gpus: "--tp",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"lmdeploy": _LMDEPLOY_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
