"""The pace of llama.cpp's steps on one GPU, as published rates have it.

ggml-org/llama.cpp, pull requests 15131, 17505, 17891 and 24216; XiongjieDai/GPU-Benchmarks-on-LLM-Inference. Prompts go
at 22 to 95 % of a GPU's peak, which no rule explains: nothing is said of them.
"""

from __future__ import annotations

from memcore.servers.llamacpp.plan import EVERY, Flags
from memcore.servers.llamacpp.server import Options
from memcore.serving.job import ServingJob
from memcore.serving.pacing import Pace


def _alone(job: ServingJob) -> bool:
    """All on one GPU, with flash attention, and no experts."""
    flags: Flags = job.chosen(Options).flags
    held = flags.gpu_layers >= min(EVERY, job.model.num_layers + 1) and not flags.overrides and not flags.cache_on_host
    return held and not job.model.has_experts and job.num_gpus == 1 and flags.flash is not False


SPEED = Pace(share=0.88, stacked=0.55, layer=20e-6, former=30e-6, covers=_alone)
