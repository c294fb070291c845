"""Scales and 16-bit positions that sparse attention's latent rows in fp8 have next to them.

Source: sglang 0.5.6 (srt/mem_cache/memory_pool.py), 0.5.9, 0.5.12, 0.5.15 (srt/model_executor/
model_runner_kv_cache_mixin.py), 0.5.18 and 0.5.23 (srt/mem_cache/kv_cache_configurator.py),
`calculate_mla_kv_cache_dim`; which kernels run unasked: `_set_default_nsa_backends` in srt/server_args.py, then
srt/arg_groups/overrides.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.hardware import BLACKWELL, Accelerator
from memcore.memory.ledger import Entry
from memcore.servers.sglang.indexers import spare_keys
from memcore.serving.cache import CacheSpec
from memcore.serving.entries import tensor
from memcore.serving.job import ServingJob
from memcore.serving.server_weights import cached_layers
from memcore.serving.stages import Stage

_RAW, _COUNTED = (0, 5, 12), (0, 5, 18)
"""The first release read whose kernels for Blackwell and AMD's GPUs take rows without scales, and the first that counts
scales when it sizes the pool."""
_SOURCE = "sglang 0.5.9, srt/model_executor/model_runner_kv_cache_mixin.py, calculate_mla_kv_cache_dim"


def cached(job: ServingJob, stage: Stage, number: tuple[int, ...]) -> tuple[CacheSpec, ...]:
    """Return what layers have in the cache besides the model's own keys and values, where the pool's size counts it."""
    spare = tuple(spare_keys(job, stage, number))
    return (*spare, *scales(job, stage, number)) if number >= _COUNTED else spare


def uncounted(job: ServingJob, stage: Stage, number: tuple[int, ...], tokens: int) -> Iterator[Entry]:
    """Yield scales that make the pool larger than the memory that it was sized for."""
    found = () if number >= _COUNTED else scales(job, stage, number)
    if each := sum(part.bytes for part in found):
        sizes = {"tokens": tokens, "scaled": each}
        yield tensor("scales of the token pool", "KV cache", ("tokens", "scaled"), 1, sizes, _SOURCE)


def scales(job: ServingJob, stage: Stage, number: tuple[int, ...]) -> tuple[CacheSpec, ...]:
    """Return an fp32 scale for each 128 of a row, and a second byte of each rotated element."""
    sizes = job.basics.sizes
    if not {"j", "lk"} <= set(sizes) or not _scaled(job.basics.accelerator, number):
        return ()
    spec = CacheSpec(kind="latent", bytes=4 * (sizes["lk"] // 128) + sizes["r"], shape=("c",), title="scales")
    row = sizes["lk"] + sizes["r"]
    parts = (part for layer in cached_layers(job, stage) for part in layer)
    return tuple(spec for part in parts if part.shape == ("c",) and part.bytes == row)


def _scaled(accelerator: Accelerator | None, number: tuple[int, ...]) -> bool:
    if accelerator is None or number < _RAW:
        return accelerator is not None
    return accelerator.major is not None and accelerator.major < BLACKWELL
