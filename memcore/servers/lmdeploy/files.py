"""LMDeploy's command line, and its engines' configs in Python.

Source: lmdeploy 0.16, cli/serve.py, cli/utils.py (`ArgumentHelper`) and messages.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.parallelism import Parallelism
from memcore.formats.normalized import Normalized
from memcore.formats.served import Served
from memcore.formats.tool import Key, Tool
from memcore.servers.command_lines import in_eight_bits
from memcore.servers.lmdeploy.settings import LmdeploySettings
from memcore.serving.inference import Inference

_FORMATS: Mapping[str, str] = {
    "awq": "awq", "gptq": "gptq", "fp8-block": "fp8", "mxfp4": "mxfp4", "int4": "compressed-tensors", "bf16": "hf",
}  # fmt: skip
_POLICIES: Mapping[str, int] = {"auto": 0, "int4": 4, "int8": 8, "fp8": 16}
"""`QuantPolicy` of messages.py."""
_FP8_E5M2 = 17


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """LMDeploy's arguments; `hf` says that nothing is quantized but what the checkpoint says."""
    normalized = {name: value for name, value in found.items() if (name, value) != ("--model-format", "hf")}
    if in_eight_bits(normalized.get("--model-format"), normalized.get("*")):
        del normalized["--model-format"]
    if normalized.get("--quant-policy") == _FP8_E5M2:
        normalized["--quant-policy"] = _POLICIES["fp8"]
    return normalized, ()


LMDEPLOY = Tool(
    name="lmdeploy",
    title="LMDeploy",
    syntax="argv",
    engines=("lmdeploy",),
    program="lmdeploy serve api_server",
    prefixes=("lmdeploy serve", "lmdeploy chat"),
    served=(
        Served(
            names=("pipeline",), library="lmdeploy", program="lmdeploy serve api_server", places=("model_path",),
            parts={"TurbomindEngineConfig": {}, "PytorchEngineConfig": {"--backend": "pytorch"}},
            renamed={"block_size": "--cache-block-seq-len"},
            ignored=("backend_config", "chat_template_config", "log_level", "max_log_len", "model_name", "gen_config"),
            negates=False,
        ),
    ),
    tells=("--cache-max-entry-count", "--session-len", "--quant-policy"),
    model="*",
    keys=(
        Key(path=Parallelism.tensor_parallel_size, name="--tp"),
        Key(path=Inference.max_model_len, name="--session-len"),
        Key(path=Inference.max_num_seqs, name="--max-batch-size"),
        Key(path=Inference.block_size, name="--cache-block-seq-len"),
        Key(path=Inference.kv_cache_dtype, name="--quant-policy", values=_POLICIES),
        Key(path=Inference.quantization, name="--model-format", values=_FORMATS),
        Key(path=Inference.weight_dtype, name="--dtype", values={"bf16": "bfloat16", "fp16": "float16"}),
        Key(path=LmdeploySettings.cache_max_entry_count, name="--cache-max-entry-count"),
        Key(path=LmdeploySettings.max_prefill_token_num, name="--max-prefill-token-num"),
        Key(path=LmdeploySettings.backend, name="--backend"),
    ),
    normalized=_normalized,
    unsaid={Parallelism.tensor_parallel_size: 1},
    vocabulary=("lmdeploy",),
    abbreviates=True,
    source="lmdeploy, cli/utils.py, api.py",
)  # fmt: skip
TOOLS = (LMDEPLOY,)
