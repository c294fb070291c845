"""How fast vLLM's steps are."""

from __future__ import annotations

from memcore.networks.parts import Experts
from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.job import Kernels, Pace, ServingJob

_LAUNCHING = 0.6e-3
"""Seconds in which the host starts a layer's kernels one by one: 0.8 ms next to A800s (Qwen2.5 7B, vllm-project/
vllm-omni, issue 7960), of which a faster host needs less."""
_LAUNCHING_EXPERTS = 0.4e-3
"""What routed experts add: a layer of Nemotron 3 Nano, which is a mixer or experts alone, takes as long as a whole one
(0.59 ms next to a laptop's RTX 5090, airelien.dev, nemotron-nvfp4-blackwell-mobile-166-tps)."""


def _launching(job: ServingJob) -> float:
    """Return seconds in which the host starts a step's kernels where no graphs are captured."""
    if not job.config[VllmSettings.enforce_eager]:
        return 0.0
    both = sum(
        count
        for layer, count in job.model.layers
        if layer.mixers and any(isinstance(ffn, Experts) for ffn in layer.ffns)
    )
    return job.model.num_layers * _LAUNCHING + both * _LAUNCHING_EXPERTS


def _uncovered(job: ServingJob) -> str | None:
    """Return the key of a sentence on what published rates do not cover: weights that the host keeps."""
    return "pace-unknown-offload" if job.config[VllmSettings.cpu_offload_gb] else None


SPEED = Pace(
    late=Kernels(share=0.85, layer=60e-6, latent=160e-6),
    former=Kernels(share=0.85, layer=110e-6, unpacking=30e-6),
    others={"8.6": Kernels(share=0.85, layer=75e-6)},
    rows=True,
    prompts=True,
    latent=9,
    recurrent=(0.45, 1.45),
    launching=_launching,
    uncovered=_uncovered,
)
"""As published rates have it: seconds are fitted to some of them, the others test them.

Qwen2.5's models on an A100 (QwenLM/Qwen2.5, docs/source/benchmark/speed_benchmark.rst); on later GPUs, Qwen3-4B on an
RTX 4090, Llama 3.1 8B and Qwen2.5 72B on H100s (tenstorrent/tt-inference-server, issues 143 and 394;
noonghunna/club-3090, issue 697); on RTX 3090s Granite 8B and Qwen3.6-35B-A3B, whose recurrent states take no longer
than attention; on two RTX 5090s it takes two thirds of what is expected, which is unexplained. Latent attention takes
221 µs a layer with DeepSeek-R1 in four bits on H100s (issue 356 of the former), and 213 with V3.1 in 8 bits on H200s
(vllm-project/vllm, pull request 28992).
"""
