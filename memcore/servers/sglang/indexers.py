"""Keys of the indexer that layers have room for which use another layer's.

Source: sglang, srt/model_executor/pool_configurator.py (`_compute_dsa_indexer_cell_size`), read in 0.5.13 to 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.networks.parts import LatentAttention
from memcore.serving.cache import CacheSpec
from memcore.serving.job import ServingJob
from memcore.serving.stages import Stage

_OWN = (0, 5, 18)
"""The first release read whose layers have room only where they choose tokens themselves; 0.5.16 had it in all."""


def spare_keys(job: ServingJob, stage: Stage, number: tuple[int, ...]) -> Iterator[CacheSpec]:
    """Yield one for each layer without an indexer: 128 of fp8 and an fp32 scale for each 128 of them."""
    if number >= _OWN:
        return
    width = job.basics.sizes.get("j", 0)
    spec = CacheSpec(kind="latent", bytes=width + 4 * -(-width // 128), shape=("j",), title="the indexer's keys")
    for layer, numbers in stage.kinds.items():
        if any(isinstance(mixer, LatentAttention) and mixer.reuses for mixer in layer.mixers):
            yield from [spec] * len(numbers)
