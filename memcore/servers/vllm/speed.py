"""The pace of vLLM's steps, as published rates have it.

Qwen2.5's models on an A100 (QwenLM/Qwen2.5, docs/source/benchmark/speed_benchmark.rst); on later GPUs, Qwen3-4B on an
RTX 4090, Llama 3.1 8B and Qwen2.5 72B on H100s (tenstorrent/tt-inference-server, issues 143 and 394;
noonghunna/club-3090, issue 697).
"""

from __future__ import annotations

from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.job import ServingJob
from memcore.serving.pacing import Pace


def _captured(job: ServingJob) -> bool:
    """Rates are known of graphs, and of weights on the GPU alone."""
    return not job.config[VllmSettings.enforce_eager] and not job.config[VllmSettings.cpu_offload_gb]


SPEED = Pace(
    share=0.85, stacked=0.85, layer=60e-6, former=110e-6, unpacking=30e-6, rows=True, prompts=True, covers=_captured
)
