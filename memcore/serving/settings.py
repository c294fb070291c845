"""Settings of inference servers, as they name them on their command lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Flag, Integer, Listed, Text
from memcore.config.needs import ANY, ROUTED, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.serving.gguf_types import BLOCK_TYPES
from memcore.serving.inference import Inference

_VLLM, _SGLANG, _TRT, _CPP = ("vllm",), ("sglang",), ("tensorrt-llm",), ("llama.cpp",)
_GGML = Listed("ggml types", {name.lower(): name for name in BLOCK_TYPES})


class ServerSettings(Section, path="engine"):
    """What servers can be told besides the job itself."""

    max_num_seqs = setting(
        Integer(unit="sequences"), "Max sequences per step",
        "Same as inference.max_num_seqs, for files that have it under engine.",
        flag="engine-max-seqs", engines=("vllm", "sglang", "tensorrt-llm"), advanced=True,
    )  # fmt: skip
    block_size = setting(
        Integer(unit="tokens"), "Block size", "Same as inference.block_size, for files that have it under engine.",
        flag="engine-block-size", engines=("vllm", "sglang", "tensorrt-llm"), advanced=True,
    )  # fmt: skip
    enable_expert_parallel = setting(
        Flag(),
        "Expert parallel",
        "Place whole experts on each rank instead of splitting every expert.",
        flag="enable-expert-parallel",
        engines=("vllm", "sglang"),
        default="false",
        advanced=True,
    )
    quantization = setting(
        Text(),
        "Server's quantization",
        "The server's own name of the weight format, for the record; inference.quantization decides.",
        flag="server-quantization",
        engines=("vllm", "sglang", "tensorrt-llm"),
        advanced=True,
    )


SECTIONS = (Inference, ServerSettings)
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "vllm": (
        Parallelism.data_parallel_size,
        Parallelism.pipeline_parallel_size,
        EngineSettings.version,
    ),
    "sglang": (
        Parallelism.data_parallel_size,
        Parallelism.pipeline_parallel_size,
        EngineSettings.version,
    ),
    "transformers": (
        Parallelism.pipeline_parallel_size,
        EngineSettings.version,
    ),
    "tensorrt-llm": (
        Parallelism.pipeline_parallel_size,
        EngineSettings.version,
    ),
    "llama.cpp": (
        Parallelism.pipeline_parallel_size,
        EngineSettings.version,
    ),
}
"""What of the settings that engines have in common each of these takes."""
NEEDS: Mapping[str, Need] = {
    Inference.num_speculative_tokens: Need(Inference.draft_model, (ANY,)),
    Inference.max_lora_rank: Need(Inference.max_loras, (ANY,)),
    ServerSettings.enable_expert_parallel: ROUTED,
}
"""The one other setting that each of these waits for."""
_NOT_SERVED = (Parallelism.sequence_parallel, Parallelism.loss_parallel)
_ALONE = (
    Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size,
)  # fmt: skip
REFUSED: Mapping[str, tuple[str, ...]] = {
    "transformers": (*_NOT_SERVED, *_ALONE),
    "vllm": _NOT_SERVED,
    "sglang": (*_NOT_SERVED, Parallelism.context_parallel_size),
    "tensorrt-llm": (*_NOT_SERVED, Parallelism.context_parallel_size),
    "llama.cpp": (*_NOT_SERVED, *_ALONE),
}
"""Settings that every engine could have, but this one refuses whatever their value."""
