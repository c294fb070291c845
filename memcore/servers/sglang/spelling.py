"""Settings as SGLang spells them.

Source: sglang, srt/server_args.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.servers.sglang.settings import SglangSettings
from memcore.serving.inference import Inference
from memcore.serving.settings import ServerSettings

_SGLANG: Mapping[str, object] = {
    Inference.max_model_len: "--context-length {}",
    Inference.max_num_seqs: "--max-running-requests {}",
    Inference.kv_cache_dtype: {"fp8": "--kv-cache-dtype fp8_e5m2"},
    Inference.quantization: {"fp8": "--quantization fp8", "awq": "an AWQ checkpoint of the model"},
    Inference.draft_model: {None: "no --speculative-algorithm"},
    Parallelism.tensor_parallel_size: "--tp-size {}",
    SglangSettings.mem_fraction_static: "--mem-fraction-static {}",
    SglangSettings.chunked_prefill_size: "--chunked-prefill-size {}",
}
SPELLING: Mapping[str, Mapping[str, object]] = {"sglang": _SGLANG}
"""By dialect and path: a text with the value in it, or a text for each value."""
_SGLANG_NAMES: Mapping[str, str] = {
    EngineSettings.expandable_segments: "PYTORCH_CUDA_ALLOC_CONF",
    "model": "--model-path",
    EngineSettings.type: "sglang.launch_server",
    EngineSettings.version: "pip install sglang==",
    ServerSettings.allow_longer: "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
    ServerSettings.scaled_positions: "--json-model-override-args",
    ServerSettings.enable_expert_parallel: "--ep-size",
    Inference.draft_model: "--speculative-draft-model-path",
    Inference.speculative_method: "--speculative-algorithm",
    Inference.num_speculative_tokens: "--speculative-num-draft-tokens",
    Hardware.num_gpus: "--tp-size",
    SglangSettings.cuda_graph_sizes: "--cuda-graph-bs",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"sglang": _SGLANG_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
