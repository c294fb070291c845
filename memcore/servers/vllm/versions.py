"""How vLLM budgets memory, release by release.

Read in the wheels of 0.2.6, 0.5.3, 0.9.2, 0.12, 0.13, 0.14, 0.16 to 0.22, 0.24, 0.26 to 0.29 and 0.33:
v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py, config/cache.py, envs.py, v1/sample/ops, engine/arg_utils.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What holds from a release on."""

    since: tuple[int, ...]
    utilization: float = 0.90
    """The default of `gpu_memory_utilization`."""
    sampler: int = 32
    """Bytes for each logit beyond the logits and their fp32 copy: sorting needs values, indices and three buffers (32),
    masking in place only probabilities and random numbers (8)."""
    masks_with_triton: bool = False
    """A buffer of one row of logits for each multiprocessor."""
    graphs_inside: bool = False
    """CUDA graphs are estimated and taken from the cache."""
    buffers_inside: bool = False
    """Whatever the process has taken since its start is subtracted, the runner's own buffers too."""
    tokens_by_concurrency: bool = False
    """The reported number of tokens is concurrency times the longest sequence; before, that of one group of layers."""
    keeps_expert_workspace: bool = True
    """The experts' workspace stays allocated after profiling."""
    server_batches: bool = True
    """Defaults depend on the GPU: 8192 tokens and 1024 sequences from 70 GiB on."""
    wide_tier: bool = False
    """16384 tokens from 160 GiB on."""
    whole_device: bool = False
    """The budget holds everything that is used on the GPU, the CUDA context too, and the allocator's cache."""


_V0 = Facts(since=(0, 0), keeps_expert_workspace=False, server_batches=False, whole_device=True)
_V1 = replace(_V0, since=(0, 8), server_batches=True, whole_device=False)
_WORKSPACE = replace(_V1, since=(0, 13), keeps_expert_workspace=True)
_TRITON = replace(_WORKSPACE, since=(0, 17), sampler=8, masks_with_triton=True)
_GRAPHS = replace(_TRITON, since=(0, 20), utilization=0.92, graphs_inside=True)
_FLASHINFER = replace(_GRAPHS, since=(0, 21), tokens_by_concurrency=True, masks_with_triton=False)
_CONSUMED = replace(_FLASHINFER, since=(0, 27), buffers_inside=True)
_WIDE = replace(_CONSUMED, since=(0, 28), wide_tier=True)

FACTS = (_V0, _V1, _WORKSPACE, _TRITON, _GRAPHS, _FLASHINFER, _CONSUMED, _WIDE)
"""Rows in order of release."""
NEWEST = "0.33.0"
"""The newest release that was read; what is not given is taken for it."""


def release(version: object) -> tuple[int, ...]:
    """A release as numbers.

    >>> release("0.19.0"), release("v0.2.6.post1")
    ((0, 19, 0), (0, 2, 6))
    """
    return tuple(int(part) for part in re.findall(r"(?:^v?|\.)(\d+)(?=\.|$|[a-z])", str(version)))


def facts(version: object) -> Facts:
    """What holds for a release.

    >>> facts("0.19.0").utilization, facts("0.20").utilization, facts("0.2").whole_device
    (0.9, 0.92, True)
    """
    number = release(version)
    return max((row for row in FACTS if row.since <= number), key=lambda row: row.since, default=_V0)
