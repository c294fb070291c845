"""What makes room in TensorRT-LLM, from the harmless to what changes what is served."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.servers.tensorrt_llm.settings import TensorRtSettings
from memcore.serving.changes import PAGED, ServerChange, Share, fewer_tokens, larger_share

CHANGES: Mapping[str, tuple[ServerChange, ...]] = {
    "tensorrt-llm": (
        larger_share(Share(TensorRtSettings.free_gpu_memory_fraction)),
        fewer_tokens(TensorRtSettings.max_num_tokens),
        *PAGED,
    ),
}
"""In order of harm, in which the ladder climbs them."""
