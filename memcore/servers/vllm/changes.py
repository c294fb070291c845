"""What makes room in vLLM, from the harmless to what changes what is served."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.changes import PAGED, Becomes, ServerChange, Utilization, fewer_tokens, larger_share

CHANGES: Mapping[str, tuple[ServerChange, ...]] = {
    "vllm": (
        larger_share(Utilization(VllmSettings.gpu_memory_utilization)),
        ServerChange(
            title="No CUDA graphs",
            kind="latency",
            note="kernels launch one by one, which slows small batches most",
            how=Becomes({VllmSettings.enforce_eager: True}),
        ),
        fewer_tokens(VllmSettings.max_num_batched_tokens),
        *PAGED,
    ),
}
"""In order of harm, in which the ladder climbs them."""
